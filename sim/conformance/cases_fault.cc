// Errors of kernels: what the context answers afterwards. Each case has its own process.
#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

// What a context says after the error `kernel` made.
void After(Answer& out, const char* kernel) {
  CUdeviceptr pointer = 0;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  CU(cuMemAlloc, &pointer, 4096);
  CU(cuEventCreate, &event, 0U);
  CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
  out("launch", Launch(Kernel(kernel), stream));
  out("sync", CU(cuStreamSynchronize, stream));
  out("sync-again", CU(cuStreamSynchronize, stream));
  out("other-stream", CU(cuStreamSynchronize, nullptr));
  out("context", CU(cuCtxSynchronize));
  CUdeviceptr other = 0;
  out("alloc", CU(cuMemAlloc, &other, 4096));
  out("launch-2", Launch(Kernel("empty"), nullptr));
  out("record", CU(cuEventRecord, event, stream));
  out("query", CU(cuEventQuery, event));
  unsigned char byte = 0;
  out("copy", CU(cuMemcpyDtoH, &byte, pointer, 1));
  size_t free = 0;
  size_t total = 0;
  out("info", CU(cuMemGetInfo, &free, &total));
  out("bad-argument", CU(cuMemAlloc, nullptr, 4096));
  out("free", CU(cuMemFree, pointer));
  out("destroy-stream", CU(cuStreamDestroy, stream));
  out("destroy-event", CU(cuEventDestroy, event));
}

const Case kCases[] = {
    {"fault.address", kContext, [](Answer& out) { After(out, "illegal_address"); }, kOwnProcess},
    {"fault.trap", kContext, [](Answer& out) { After(out, "launch_failure"); }, kOwnProcess},
    {"fault.address.device-calls", kContext,
     [](Answer& out) {
       Launch(Kernel("illegal_address"));
       out("sync", CU(cuCtxSynchronize));
       int value = 0;
       CUdevice device = 0;
       CUcontext current = nullptr;
       out("attribute", CU(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
       out("device", CU(cuCtxGetDevice, &device));
       out("current", CU(cuCtxGetCurrent, &current));
       void* pointer = nullptr;
       out("host-alloc", CU(cuMemAllocHost, &pointer, 4096));
       CUmodule module = nullptr;
       out("module", CU(cuModuleLoadData, &module, ".version 7.0\n"));
       CUcontext other = nullptr;
       out("new-context", CU(cuCtxCreate, &other, nullptr, 0U, 0));
     },
     kOwnProcess},
    {"fault.address.reset", kContext,
     [](Answer& out) {
       Launch(Kernel("illegal_address"));
       out("sync", CU(cuCtxSynchronize));
       out("reset", CU(cuDevicePrimaryCtxReset, 0));
       CUcontext again = nullptr;
       out("retain", CU(cuDevicePrimaryCtxRetain, &again, 0));
       CU(cuCtxSetCurrent, again);
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAlloc, &pointer, 4096));
       out("sync", CU(cuCtxSynchronize));
     },
     kOwnProcess},
    {"fault.address.other-context", kContext,
     [](Answer& out) {
       CUcontext other = nullptr;
       CU(cuCtxCreate, &other, nullptr, 0U, 0);
       CUcontext popped = nullptr;
       CU(cuCtxPopCurrent, &popped);
       Launch(Kernel("illegal_address"));
       out("sync", CU(cuCtxSynchronize));
       CU(cuCtxPushCurrent, other);
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAlloc, &pointer, 4096));
       out("other-sync", CU(cuCtxSynchronize));
     },
     kOwnProcess},
    {"fault.address.event", kContext,
     [](Answer& out) {
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       Launch(Kernel("illegal_address"));
       out("record", CU(cuEventRecord, event, nullptr));
       out("sync", CU(cuEventSynchronize, event));
       out("query", CU(cuEventQuery, event));
     },
     kOwnProcess},
    {"fault.refusals-do-not-stick", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAlloc, &pointer, size_t{1} << 45));
       out("launch", CU(cuLaunchKernel, Kernel("empty"), 0U, 1U, 1U, 32U, 1U, 1U, 0U, nullptr,
                        nullptr, nullptr));
       out("free", CU(cuMemFree, 0x1234));
       out("sync", CU(cuCtxSynchronize));
       out("good", CU(cuMemAlloc, &pointer, 4096));
       CU(cuMemFree, pointer);
     }},
    {"fault.double-event-destroy", kContext,
     [](Answer& out) {
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       out("first", CU(cuEventDestroy, event));
       out("second", CU(cuEventDestroy, event));
     },
     kOwnProcess},
    {"fault.double-stream-destroy", kContext,
     [](Answer& out) {
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, 0U);
       out("first", CU(cuStreamDestroy, stream));
       out("second", CU(cuStreamDestroy, stream));
     },
     kOwnProcess},
    {"fault.dead-context", kContext,
     [](Answer& out) {
       CUcontext other = nullptr;
       CU(cuCtxCreate, &other, nullptr, 0U, 0);
       CU(cuCtxDestroy, other);
       out("set", CU(cuCtxSetCurrent, other));
       out("again", CU(cuCtxDestroy, other));
     },
     kOwnProcess},
    {"fault.stream-of-dead-context", kContext,
     [](Answer& out) {
       CUcontext other = nullptr;
       CU(cuCtxCreate, &other, nullptr, 0U, 0);
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, 0U);
       CU(cuCtxDestroy, other);
       out("query", CU(cuStreamQuery, stream));
     },
     kOwnProcess},
    {"fault.memory-of-dead-context", kContext,
     [](Answer& out) {
       const auto before = static_cast<long long>(FreeBytes());
       CUcontext other = nullptr;
       CU(cuCtxCreate, &other, nullptr, 0U, 0);
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64 << 20);
       CU(cuCtxDestroy, other);
       out("left-mib", Mib(before - static_cast<long long>(FreeBytes())));
       out("free", CU(cuMemFree, pointer));
     },
     kAlone},
};

}  // namespace

std::span<const Case> FaultCases() { return kCases; }

}  // namespace krux::sim::conformance
