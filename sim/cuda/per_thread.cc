// The forms of calls for programs built with a default stream per thread: where the stream is left
// out, or 0, they mean the calling thread's own one.
#include <cuda.h>

namespace {

CUstream Own(CUstream stream) { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

// A synchronous copy: the asynchronous one in the thread's stream, then a wait.
CUresult ThenWait(CUresult result) {
  return result == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : result;
}

}  // namespace

// `parameters` and `arguments` of the plain form, with the stream wrapped in Own().
#define KRUX_SIM_PTSZ(name, parameters, arguments) \
  CUresult CUDAAPI name##_ptsz parameters { return name arguments; }

KRUX_SIM_PTSZ(cuEventRecord, (CUevent e, CUstream s), (e, Own(s)))
KRUX_SIM_PTSZ(cuEventRecordWithFlags, (CUevent e, CUstream s, unsigned f), (e, Own(s), f))
KRUX_SIM_PTSZ(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned f), (Own(s), e, f))
KRUX_SIM_PTSZ(cuStreamQuery, (CUstream s), (Own(s)))
KRUX_SIM_PTSZ(cuStreamSynchronize, (CUstream s), (Own(s)))
KRUX_SIM_PTSZ(cuStreamGetPriority, (CUstream s, int* p), (Own(s), p))
KRUX_SIM_PTSZ(cuStreamGetFlags, (CUstream s, unsigned* f), (Own(s), f))
KRUX_SIM_PTSZ(cuStreamGetId, (CUstream s, unsigned long long* i), (Own(s), i))
KRUX_SIM_PTSZ(cuStreamGetDevice, (CUstream s, CUdevice* d), (Own(s), d))
KRUX_SIM_PTSZ(cuStreamGetCtx, (CUstream s, CUcontext* c), (Own(s), c))
KRUX_SIM_PTSZ(cuStreamGetCtx_v2, (CUstream s, CUcontext* c, CUgreenCtx* g), (Own(s), c, g))
KRUX_SIM_PTSZ(cuStreamAddCallback, (CUstream s, CUstreamCallback c, void* d, unsigned f),
              (Own(s), c, d, f))
KRUX_SIM_PTSZ(cuStreamAttachMemAsync, (CUstream s, CUdeviceptr p, size_t n, unsigned f),
              (Own(s), p, n, f))
KRUX_SIM_PTSZ(cuStreamWriteValue32, (CUstream s, CUdeviceptr p, cuuint32_t v, unsigned f),
              (Own(s), p, v, f))
KRUX_SIM_PTSZ(cuStreamWriteValue64, (CUstream s, CUdeviceptr p, cuuint64_t v, unsigned f),
              (Own(s), p, v, f))
KRUX_SIM_PTSZ(cuStreamWaitValue32, (CUstream s, CUdeviceptr p, cuuint32_t v, unsigned f),
              (Own(s), p, v, f))
KRUX_SIM_PTSZ(cuStreamWaitValue64, (CUstream s, CUdeviceptr p, cuuint64_t v, unsigned f),
              (Own(s), p, v, f))
KRUX_SIM_PTSZ(cuStreamWriteValue32_v2, (CUstream s, CUdeviceptr p, cuuint32_t v, unsigned f),
              (Own(s), p, v, f))
KRUX_SIM_PTSZ(cuStreamWriteValue64_v2, (CUstream s, CUdeviceptr p, cuuint64_t v, unsigned f),
              (Own(s), p, v, f))
KRUX_SIM_PTSZ(cuStreamWaitValue32_v2, (CUstream s, CUdeviceptr p, cuuint32_t v, unsigned f),
              (Own(s), p, v, f))
KRUX_SIM_PTSZ(cuStreamWaitValue64_v2, (CUstream s, CUdeviceptr p, cuuint64_t v, unsigned f),
              (Own(s), p, v, f))
KRUX_SIM_PTSZ(cuStreamBatchMemOp, (CUstream s, unsigned n, CUstreamBatchMemOpParams* o, unsigned f),
              (Own(s), n, o, f))
KRUX_SIM_PTSZ(cuStreamBatchMemOp_v2,
              (CUstream s, unsigned n, CUstreamBatchMemOpParams* o, unsigned f), (Own(s), n, o, f))
KRUX_SIM_PTSZ(cuStreamBeginCapture, (CUstream s), (Own(s)))
KRUX_SIM_PTSZ(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode m), (Own(s), m))
KRUX_SIM_PTSZ(cuStreamBeginCaptureToGraph,
              (CUstream s, CUgraph g, const CUgraphNode* a, const CUgraphEdgeData* e, size_t n,
               CUstreamCaptureMode m),
              (Own(s), g, a, e, n, m))
KRUX_SIM_PTSZ(cuStreamUpdateCaptureDependencies, (CUstream s, CUgraphNode* a, size_t n, unsigned f),
              (Own(s), a, n, f))
KRUX_SIM_PTSZ(cuStreamUpdateCaptureDependencies_v2,
              (CUstream s, CUgraphNode* a, const CUgraphEdgeData* e, size_t n, unsigned f),
              (Own(s), a, e, n, f))
KRUX_SIM_PTSZ(cuStreamEndCapture, (CUstream s, CUgraph* g), (Own(s), g))
KRUX_SIM_PTSZ(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus* c), (Own(s), c))
KRUX_SIM_PTSZ(cuStreamGetCaptureInfo, (CUstream s, CUstreamCaptureStatus* c, cuuint64_t* i),
              (Own(s), c, i))
KRUX_SIM_PTSZ(cuStreamGetCaptureInfo_v2,
              (CUstream s, CUstreamCaptureStatus* c, cuuint64_t* i, CUgraph* g,
               const CUgraphNode** d, size_t* n),
              (Own(s), c, i, g, d, n))
KRUX_SIM_PTSZ(cuStreamGetCaptureInfo_v3,
              (CUstream s, CUstreamCaptureStatus* c, cuuint64_t* i, CUgraph* g,
               const CUgraphNode** d, const CUgraphEdgeData** e, size_t* n),
              (Own(s), c, i, g, d, e, n))
KRUX_SIM_PTSZ(cuGraphInstantiateWithParams,
              (CUgraphExec * e, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS* p), (e, g, p))
KRUX_SIM_PTSZ(cuGraphLaunch, (CUgraphExec g, CUstream s), (g, Own(s)))
KRUX_SIM_PTSZ(cuGraphUpload, (CUgraphExec g, CUstream s), (g, Own(s)))
KRUX_SIM_PTSZ(cuLaunchHostFunc, (CUstream s, CUhostFn f, void* d), (Own(s), f, d))
KRUX_SIM_PTSZ(cuLaunchKernel,
              (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
               unsigned bz, unsigned m, CUstream s, void** p, void** e),
              (f, gx, gy, gz, bx, by, bz, m, Own(s), p, e))
KRUX_SIM_PTSZ(cuLaunchCooperativeKernel,
              (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
               unsigned bz, unsigned m, CUstream s, void** p),
              (f, gx, gy, gz, bx, by, bz, m, Own(s), p))
KRUX_SIM_PTSZ(cuMemAllocAsync, (CUdeviceptr * p, size_t n, CUstream s), (p, n, Own(s)))
KRUX_SIM_PTSZ(cuMemAllocFromPoolAsync, (CUdeviceptr * p, size_t n, CUmemoryPool m, CUstream s),
              (p, n, m, Own(s)))
KRUX_SIM_PTSZ(cuMemFreeAsync, (CUdeviceptr p, CUstream s), (p, Own(s)))
KRUX_SIM_PTSZ(cuMemPrefetchAsync, (CUdeviceptr p, size_t n, CUdevice d, CUstream s),
              (p, n, d, Own(s)))
KRUX_SIM_PTSZ(cuMemPrefetchAsync_v2,
              (CUdeviceptr p, size_t n, CUmemLocation l, unsigned f, CUstream s),
              (p, n, l, f, Own(s)))
KRUX_SIM_PTSZ(cuMemcpyAsync, (CUdeviceptr t, CUdeviceptr f, size_t n, CUstream s),
              (t, f, n, Own(s)))
KRUX_SIM_PTSZ(cuMemcpyPeerAsync,
              (CUdeviceptr t, CUcontext tc, CUdeviceptr f, CUcontext fc, size_t n, CUstream s),
              (t, tc, f, fc, n, Own(s)))
KRUX_SIM_PTSZ(cuMemcpyHtoDAsync_v2, (CUdeviceptr t, const void* f, size_t n, CUstream s),
              (t, f, n, Own(s)))
KRUX_SIM_PTSZ(cuMemcpyDtoHAsync_v2, (void* t, CUdeviceptr f, size_t n, CUstream s),
              (t, f, n, Own(s)))
KRUX_SIM_PTSZ(cuMemcpyDtoDAsync_v2, (CUdeviceptr t, CUdeviceptr f, size_t n, CUstream s),
              (t, f, n, Own(s)))
KRUX_SIM_PTSZ(cuMemcpyHtoAAsync_v2, (CUarray a, size_t o, const void* f, size_t n, CUstream s),
              (a, o, f, n, Own(s)))
KRUX_SIM_PTSZ(cuMemcpyAtoHAsync_v2, (void* t, CUarray a, size_t o, size_t n, CUstream s),
              (t, a, o, n, Own(s)))
KRUX_SIM_PTSZ(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* c, CUstream s), (c, Own(s)))
KRUX_SIM_PTSZ(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D* c, CUstream s), (c, Own(s)))
KRUX_SIM_PTSZ(cuMemsetD8Async, (CUdeviceptr p, unsigned char v, size_t n, CUstream s),
              (p, v, n, Own(s)))
KRUX_SIM_PTSZ(cuMemsetD16Async, (CUdeviceptr p, unsigned short v, size_t n, CUstream s),
              (p, v, n, Own(s)))
KRUX_SIM_PTSZ(cuMemsetD32Async, (CUdeviceptr p, unsigned v, size_t n, CUstream s),
              (p, v, n, Own(s)))
KRUX_SIM_PTSZ(cuMemsetD2D8Async,
              (CUdeviceptr p, size_t l, unsigned char v, size_t w, size_t h, CUstream s),
              (p, l, v, w, h, Own(s)))
KRUX_SIM_PTSZ(cuMemsetD2D16Async,
              (CUdeviceptr p, size_t l, unsigned short v, size_t w, size_t h, CUstream s),
              (p, l, v, w, h, Own(s)))
KRUX_SIM_PTSZ(cuMemsetD2D32Async,
              (CUdeviceptr p, size_t l, unsigned v, size_t w, size_t h, CUstream s),
              (p, l, v, w, h, Own(s)))

CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function,
                                       void** parameters, void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchConfig own = *config;
  own.hStream = Own(own.hStream);
  return cuLaunchKernelEx(&own, function, parameters, extra);
}

CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return ThenWait(cuMemcpyAsync(to, from, bytes, CU_STREAM_PER_THREAD));
}
CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, size_t bytes) {
  return ThenWait(cuMemcpyHtoDAsync_v2(to, from, bytes, CU_STREAM_PER_THREAD));
}
CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) {
  return ThenWait(cuMemcpyDtoHAsync_v2(to, from, bytes, CU_STREAM_PER_THREAD));
}
CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, CU_STREAM_PER_THREAD);
}
CUresult CUDAAPI cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                   CUcontext from_context, size_t bytes) {
  return cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, CU_STREAM_PER_THREAD);
}
CUresult CUDAAPI cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return ThenWait(cuMemcpy2DAsync_v2(copy, CU_STREAM_PER_THREAD));
}
CUresult CUDAAPI cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return ThenWait(cuMemcpy2DAsync_v2(copy, CU_STREAM_PER_THREAD));
}
CUresult CUDAAPI cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* copy) {
  return ThenWait(cuMemcpy3DAsync_v2(copy, CU_STREAM_PER_THREAD));
}
CUresult CUDAAPI cuMemcpyHtoA_v2_ptds(CUarray array, size_t offset, const void* from,
                                      size_t bytes) {
  return ThenWait(cuMemcpyHtoAAsync_v2(array, offset, from, bytes, CU_STREAM_PER_THREAD));
}
CUresult CUDAAPI cuMemcpyAtoH_v2_ptds(void* to, CUarray array, size_t offset, size_t bytes) {
  return ThenWait(cuMemcpyAtoHAsync_v2(to, array, offset, bytes, CU_STREAM_PER_THREAD));
}
CUresult CUDAAPI cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count) {
  return cuMemsetD8Async(to, value, count, CU_STREAM_PER_THREAD);
}
CUresult CUDAAPI cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count) {
  return cuMemsetD16Async(to, value, count, CU_STREAM_PER_THREAD);
}
CUresult CUDAAPI cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t count) {
  return cuMemsetD32Async(to, value, count, CU_STREAM_PER_THREAD);
}
CUresult CUDAAPI cuMemsetD2D8_v2_ptds(CUdeviceptr to, size_t pitch, unsigned char value,
                                      size_t width, size_t height) {
  return cuMemsetD2D8Async(to, pitch, value, width, height, CU_STREAM_PER_THREAD);
}
CUresult CUDAAPI cuMemsetD2D16_v2_ptds(CUdeviceptr to, size_t pitch, unsigned short value,
                                       size_t width, size_t height) {
  return cuMemsetD2D16Async(to, pitch, value, width, height, CU_STREAM_PER_THREAD);
}
CUresult CUDAAPI cuMemsetD2D32_v2_ptds(CUdeviceptr to, size_t pitch, unsigned int value,
                                       size_t width, size_t height) {
  return cuMemsetD2D32Async(to, pitch, value, width, height, CU_STREAM_PER_THREAD);
}
