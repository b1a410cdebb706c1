// What a stream may do while it captures, what others may, and what breaks a capture.
#include <string>
#include <thread>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

constexpr CUstreamCaptureMode kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr CUstreamCaptureMode kThread = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr CUstreamCaptureMode kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

CUstream MakeStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  CU(cuStreamCreate, &stream, flags);
  return stream;
}
void Status(Answer& out, CUstream stream) {
  CUstreamCaptureStatus status{};
  out("is-capturing", CU(cuStreamIsCapturing, stream, &status));
  out("status", static_cast<int>(status));
}
size_t CountNodes(CUgraph graph) {
  size_t count = 0;
  if (graph != nullptr) CU(cuGraphGetNodes, graph, nullptr, &count);
  return count;
}
void EndCapture(Answer& out, CUstream stream) {
  CUgraph graph = nullptr;
  out("end", CU(cuStreamEndCapture, stream, &graph));
  out("graph", graph != nullptr);
  out("nodes", CountNodes(graph));
  if (graph != nullptr) CU(cuGraphDestroy, graph);
}

// Begins a capture, does `forbidden`, says what the capture became of it.
void During(Answer& out, CUstreamCaptureMode mode, CUresult (*call)(CUstream)) {
  CUstream stream = MakeStream();
  out("begin", CU(cuStreamBeginCapture, stream, mode));
  out("call", call(stream));
  Status(out, stream);
  EndCapture(out, stream);
  CU(cuStreamDestroy, stream);
}

CUresult Alloc(CUstream) {
  CUdeviceptr pointer = 0;
  return CU(cuMemAlloc, &pointer, 4096);
}
CUresult OtherThread(CUresult (*call)(CUstream)) {
  CUresult result = CUDA_SUCCESS;
  std::thread([&] {
    CU(cuCtxSetCurrent, PrimaryContext());
    result = call(nullptr);
  }).join();
  return result;
}
CUresult QueryFresh(CUstream) {
  CUevent event = nullptr;
  CU(cuEventCreate, &event, 0U);
  return CU(cuEventQuery, event);
}
CUresult SetOn(CUstream stream) {
  CUdeviceptr pointer = 0;
  CUstreamCaptureMode mode = kRelaxed;
  CU(cuThreadExchangeStreamCaptureMode, &mode);
  CU(cuMemAlloc, &pointer, 4096);
  CU(cuThreadExchangeStreamCaptureMode, &mode);
  return CU(cuMemsetD8Async, pointer, static_cast<unsigned char>(1), 4096, stream);
}

const Case kCases[] = {
    {"capture.empty", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       Status(out, stream);
       out("begin", CU(cuStreamBeginCapture, stream, kGlobal));
       Status(out, stream);
       EndCapture(out, stream);
       Status(out, stream);
       CU(cuStreamDestroy, stream);
     }},
    {"capture.begin.twice", kContext,
     [](Answer& out) {
       During(out, kGlobal,
              [](CUstream stream) { return CU(cuStreamBeginCapture, stream, kGlobal); });
     }},
    {"capture.begin.legacy", kContext,
     [](Answer& out) {
       out("null", CU(cuStreamBeginCapture, nullptr, kGlobal));
       out("legacy", CU(cuStreamBeginCapture, CU_STREAM_LEGACY, kGlobal));
     }},
    {"capture.begin.per-thread", kContext,
     [](Answer& out) {
       out("begin", CU(cuStreamBeginCapture, CU_STREAM_PER_THREAD, kGlobal));
       EndCapture(out, CU_STREAM_PER_THREAD);
     }},
    {"capture.begin.bad-mode", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       out(CU(cuStreamBeginCapture, stream, Odd<CUstreamCaptureMode>(7)));
       CU(cuStreamDestroy, stream);
     }},
    {"capture.end.without", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     }},
    {"capture.end.null", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       CU(cuStreamBeginCapture, stream, kGlobal);
       out("null", CU(cuStreamEndCapture, stream, nullptr));
       Status(out, stream);
       CU(cuStreamDestroy, stream);
     },
     kOwnProcess},
    {"capture.end.other-thread", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       CU(cuStreamBeginCapture, stream, kGlobal);
       CUresult result = CUDA_SUCCESS;
       std::thread([&] {
         CUgraph graph = nullptr;
         CU(cuCtxSetCurrent, PrimaryContext());
         result = CU(cuStreamEndCapture, stream, &graph);
       }).join();
       out("other", result);
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     },
     kOwnProcess},
    {"capture.end.other-thread-relaxed", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       CU(cuStreamBeginCapture, stream, kRelaxed);
       CUresult result = CUDA_SUCCESS;
       std::thread([&] {
         CUgraph graph = nullptr;
         CU(cuCtxSetCurrent, PrimaryContext());
         result = CU(cuStreamEndCapture, stream, &graph);
       }).join();
       out("other", result);
       Status(out, stream);
     },
     kOwnProcess},
    {"capture.memset", kContext, [](Answer& out) { During(out, kGlobal, SetOn); }},
    {"capture.launch", kContext,
     [](Answer& out) {
       Kernel("empty");
       During(out, kGlobal, [](CUstream stream) { return Launch(Kernel("empty"), stream); });
     }},
    {"capture.alloc.global", kContext, [](Answer& out) { During(out, kGlobal, Alloc); }},
    {"capture.alloc.thread", kContext, [](Answer& out) { During(out, kThread, Alloc); }},
    {"capture.alloc.relaxed", kContext, [](Answer& out) { During(out, kRelaxed, Alloc); }},
    {"capture.alloc.other-thread-global", kContext,
     [](Answer& out) { During(out, kGlobal, [](CUstream) { return OtherThread(Alloc); }); }},
    {"capture.alloc.other-thread-local", kContext,
     [](Answer& out) { During(out, kThread, [](CUstream) { return OtherThread(Alloc); }); }},
    {"capture.alloc.exchanged", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream) {
         CUstreamCaptureMode mode = kRelaxed;
         CU(cuThreadExchangeStreamCaptureMode, &mode);
         const CUresult result = Alloc(nullptr);
         CU(cuThreadExchangeStreamCaptureMode, &mode);
         return result;
       });
     }},
    {"capture.alloc.refused-size", kContext,
     [](Answer& out) {
       During(out, kRelaxed, [](CUstream) {
         CUdeviceptr pointer = 0;
         return CU(cuMemAlloc, &pointer, size_t{1} << 45);
       });
     }},
    {"capture.sync.stream", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream stream) { return CU(cuStreamSynchronize, stream); });
     }},
    {"capture.sync.context", kContext,
     [](Answer& out) { During(out, kGlobal, [](CUstream) { return CU(cuCtxSynchronize); }); }},
    {"capture.sync.context-relaxed", kContext,
     [](Answer& out) { During(out, kRelaxed, [](CUstream) { return CU(cuCtxSynchronize); }); }},
    {"capture.query.stream", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream stream) { return CU(cuStreamQuery, stream); });
     }},
    {"capture.query.other-stream", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream) {
         static CUstream other = MakeStream();
         return CU(cuStreamQuery, other);
       });
     }},
    {"capture.sync.other-stream", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream) {
         static CUstream other = MakeStream();
         return CU(cuStreamSynchronize, other);
       });
     }},
    {"capture.sync.other-stream-relaxed", kContext,
     [](Answer& out) {
       During(out, kRelaxed, [](CUstream) {
         static CUstream other = MakeStream();
         return CU(cuStreamSynchronize, other);
       });
     }},
    {"capture.query.event-global", kContext, [](Answer& out) { During(out, kGlobal, QueryFresh); }},
    {"capture.query.event-relaxed", kContext,
     [](Answer& out) { During(out, kRelaxed, QueryFresh); }},
    {"capture.query.event-other-thread", kContext,
     [](Answer& out) { During(out, kGlobal, [](CUstream) { return OtherThread(QueryFresh); }); }},
    {"capture.query.captured-event", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       CU(cuStreamBeginCapture, stream, kRelaxed);
       out("record", CU(cuEventRecord, event, stream));
       out("query", CU(cuEventQuery, event));
       Status(out, stream);
       out("sync", CU(cuEventSynchronize, event));
       Status(out, stream);
       EndCapture(out, stream);
       out("query-after", CU(cuEventQuery, event));
       CU(cuStreamDestroy, stream);
     },
     kOwnProcess},
    {"capture.legacy.blocking-stream", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       CUstream stream = MakeStream(CU_STREAM_DEFAULT);
       CU(cuStreamBeginCapture, stream, kRelaxed);
       out("legacy", CU(cuMemsetD8Async, pointer, static_cast<unsigned char>(1), 64, nullptr));
       Status(out, stream);
       out("sync-copy", CU(cuMemsetD8, pointer, static_cast<unsigned char>(1), 64));
       out("query", CU(cuStreamQuery, nullptr));
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     },
     kOwnProcess},
    {"capture.legacy.non-blocking-stream", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       CUstream stream = MakeStream();
       CU(cuStreamBeginCapture, stream, kRelaxed);
       out("legacy", CU(cuMemsetD8Async, pointer, static_cast<unsigned char>(1), 64, nullptr));
       out("sync-copy", CU(cuMemsetD8, pointer, static_cast<unsigned char>(1), 64));
       out("sync", CU(cuStreamSynchronize, nullptr));
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
       CU(cuMemFree, pointer);
     }},
    {"capture.legacy.global-mode", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       CUstream stream = MakeStream();
       CU(cuStreamBeginCapture, stream, kGlobal);
       out("legacy", CU(cuMemsetD8Async, pointer, static_cast<unsigned char>(1), 64, nullptr));
       Status(out, stream);
       out("sync-set", CU(cuMemsetD8, pointer, static_cast<unsigned char>(1), 64));
       Status(out, stream);
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     },
     kOwnProcess},
    {"capture.fork-join", kContext,
     [](Answer& out) {
       CUstream first = MakeStream();
       CUstream second = MakeStream();
       CUevent fork = nullptr;
       CUevent join = nullptr;
       CU(cuEventCreate, &fork, 0U);
       CU(cuEventCreate, &join, 0U);
       Kernel("empty");
       CU(cuStreamBeginCapture, first, kGlobal);
       CU(cuEventRecord, fork, first);
       out("fork", CU(cuStreamWaitEvent, second, fork, 0U));
       Status(out, second);
       Launch(Kernel("empty"), second);
       CU(cuEventRecord, join, second);
       out("join", CU(cuStreamWaitEvent, first, join, 0U));
       Launch(Kernel("empty"), first);
       EndCapture(out, first);
       Status(out, second);
       CU(cuStreamDestroy, first);
       CU(cuStreamDestroy, second);
     }},
    {"capture.unjoined", kContext,
     [](Answer& out) {
       CUstream first = MakeStream();
       CUstream second = MakeStream();
       CUevent fork = nullptr;
       CU(cuEventCreate, &fork, 0U);
       Kernel("empty");
       CU(cuStreamBeginCapture, first, kGlobal);
       CU(cuEventRecord, fork, first);
       CU(cuStreamWaitEvent, second, fork, 0U);
       Launch(Kernel("empty"), second);
       EndCapture(out, first);
       Status(out, second);
       CU(cuStreamDestroy, first);
       CU(cuStreamDestroy, second);
     }},
    {"capture.end-of-forked", kContext,
     [](Answer& out) {
       CUstream first = MakeStream();
       CUstream second = MakeStream();
       CUevent fork = nullptr;
       CU(cuEventCreate, &fork, 0U);
       CU(cuStreamBeginCapture, first, kGlobal);
       CU(cuEventRecord, fork, first);
       CU(cuStreamWaitEvent, second, fork, 0U);
       EndCapture(out, second);
       EndCapture(out, first);
       CU(cuStreamDestroy, first);
       CU(cuStreamDestroy, second);
     }},
    {"capture.wait-outside-event", kContext,
     [](Answer& out) {
       CUstream first = MakeStream();
       CUstream second = MakeStream();
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       CU(cuEventRecord, event, second);
       CU(cuStreamBeginCapture, first, kGlobal);
       out("wait", CU(cuStreamWaitEvent, first, event, 0U));
       Status(out, first);
       EndCapture(out, first);
       CU(cuStreamDestroy, first);
       CU(cuStreamDestroy, second);
     }},
    {"capture.wait-external-event", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       CU(cuStreamBeginCapture, stream, kGlobal);
       out("wait", CU(cuStreamWaitEvent, stream, event, unsigned{CU_EVENT_WAIT_EXTERNAL}));
       out("record", CU(cuEventRecordWithFlags, event, stream, unsigned{CU_EVENT_RECORD_EXTERNAL}));
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     }},
    {"capture.two-merge", kContext,
     [](Answer& out) {
       CUstream first = MakeStream();
       CUstream second = MakeStream();
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       CU(cuStreamBeginCapture, first, kGlobal);
       CU(cuStreamBeginCapture, second, kGlobal);
       CU(cuEventRecord, event, first);
       out("wait", CU(cuStreamWaitEvent, second, event, 0U));
       Status(out, first);
       Status(out, second);
       EndCapture(out, first);
       EndCapture(out, second);
       CU(cuStreamDestroy, first);
       CU(cuStreamDestroy, second);
     }},
    {"capture.info", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       CUstreamCaptureStatus status{};
       cuuint64_t id = 0;
       CUgraph graph = nullptr;
       const CUgraphNode* nodes = nullptr;
       size_t count = 77;
       out("outside",
           CU(cuStreamGetCaptureInfo, stream, &status, &id, &graph, &nodes, nullptr, &count));
       out("status", static_cast<int>(status));
       Kernel("empty");
       CU(cuStreamBeginCapture, stream, kGlobal);
       Launch(Kernel("empty"), stream);
       out("inside",
           CU(cuStreamGetCaptureInfo, stream, &status, &id, &graph, &nodes, nullptr, &count));
       out("status", static_cast<int>(status));
       out("id", id != 0);
       out("graph", graph != nullptr);
       out("last-nodes", count);
       out("null", CU(cuStreamGetCaptureInfo, stream, nullptr, nullptr, nullptr, nullptr, nullptr,
                      nullptr));
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     }},
    {"capture.info.legacy", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream(CU_STREAM_DEFAULT);
       CU(cuStreamBeginCapture, stream, kRelaxed);
       Status(out, nullptr);
       Status(out, stream);
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     },
     kOwnProcess},
    {"capture.alloc-async", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       CU(cuStreamBeginCapture, stream, kGlobal);
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAllocAsync, &pointer, 4096, stream));
       out("pointer", pointer != 0);
       out("free", CU(cuMemFreeAsync, pointer, stream));
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     }},
    {"capture.alloc-async-unfreed", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       CU(cuStreamBeginCapture, stream, kGlobal);
       CUdeviceptr pointer = 0;
       CU(cuMemAllocAsync, &pointer, 4096, stream);
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     }},
    {"capture.free-async-of-outside", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       CUdeviceptr pointer = 0;
       CU(cuMemAllocAsync, &pointer, 4096, stream);
       CU(cuStreamSynchronize, stream);
       CU(cuStreamBeginCapture, stream, kGlobal);
       out("free", CU(cuMemFreeAsync, pointer, stream));
       Status(out, stream);
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     },
     kOwnProcess},
    {"capture.host-function", kContext,
     [](Answer& out) {
       During(out, kGlobal,
              [](CUstream stream) { return CU(cuLaunchHostFunc, stream, [](void*) {}, nullptr); });
     }},
    {"capture.callback", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream stream) {
         return CU(cuStreamAddCallback, stream, [](CUstream, CUresult, void*) {}, nullptr, 0U);
       });
     }},
    {"capture.copy-from-stack", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       CUstream stream = MakeStream();
       CU(cuStreamBeginCapture, stream, kGlobal);
       char byte = 0;
       out("copy", CU(cuMemcpyHtoDAsync, pointer, &byte, 1, stream));
       out("sync-copy", CU(cuMemcpyHtoD, pointer, &byte, 1));
       Status(out, stream);
       EndCapture(out, stream);
       CU(cuStreamDestroy, stream);
     },
     kOwnProcess},
    {"capture.write-value", kContext,
     [](Answer& out) {
       static CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       During(out, kGlobal,
              [](CUstream stream) { return CU(cuStreamWriteValue32, stream, pointer, 1U, 0U); });
     }},
    {"capture.destroy-stream", kContext,
     [](Answer& out) {
       CUstream stream = MakeStream();
       CU(cuStreamBeginCapture, stream, kGlobal);
       out("destroy", CU(cuStreamDestroy, stream));
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAlloc, &pointer, 4096));
     },
     kOwnProcess},
    {"capture.event-create", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream) {
         CUevent event = nullptr;
         return CU(cuEventCreate, &event, 0U);
       });
     }},
    {"capture.stream-create", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream) {
         CUstream other = nullptr;
         return CU(cuStreamCreate, &other, 0U);
       });
     }},
    {"capture.module-load", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream) {
         static constexpr char kSmall[] =
             ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry e()\n{\n ret;\n}\n";
         CUmodule module = nullptr;
         return CU(cuModuleLoadData, &module, kSmall);
       });
     },
     kOwnProcess},
    {"capture.free.global", kContext,
     [](Answer& out) {
       static CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       During(out, kGlobal, [](CUstream) { return CU(cuMemFree, pointer); });
     }},
    {"capture.host-alloc.global", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream) {
         void* pointer = nullptr;
         return CU(cuMemAllocHost, &pointer, 4096);
       });
     }},
    {"capture.mem-info", kContext,
     [](Answer& out) {
       During(out, kGlobal, [](CUstream) {
         size_t free = 0;
         size_t total = 0;
         return CU(cuMemGetInfo, &free, &total);
       });
     }},
    {"capture.mode.exchange", kContext,
     [](Answer& out) {
       CUstreamCaptureMode mode = kThread;
       out("first", CU(cuThreadExchangeStreamCaptureMode, &mode));
       out("was", static_cast<int>(mode));
       out("back", CU(cuThreadExchangeStreamCaptureMode, &mode));
       out("was", static_cast<int>(mode));
       mode = Odd<CUstreamCaptureMode>(7);
       out("bad", CU(cuThreadExchangeStreamCaptureMode, &mode));
     }},
};

}  // namespace

std::span<const Case> CaptureCases() { return kCases; }

}  // namespace krux::sim::conformance
