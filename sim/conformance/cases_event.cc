// Events: recording, order, times, refusals.
#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

CUevent MakeEvent(unsigned flags = 0) {
  CUevent event = nullptr;
  CU(cuEventCreate, &event, flags);
  return event;
}

const Case kCases[] = {
    {"event.create.flags", kContext,
     [](Answer& out) {
       for (const unsigned flags : {0U, 1U, 2U, 3U, 4U, 6U, 7U, 8U, 0x100U}) {
         CUevent event = nullptr;
         const CUresult result = CU(cuEventCreate, &event, flags);
         out(std::to_string(flags), result);
         if (result == CUDA_SUCCESS) CU(cuEventDestroy, event);
       }
       out("null", CU(cuEventCreate, nullptr, 0U));
     }},
    {"event.unrecorded", kContext,
     [](Answer& out) {
       CUevent event = MakeEvent();
       CUevent other = MakeEvent();
       float time = 0;
       out("query", CU(cuEventQuery, event));
       out("sync", CU(cuEventSynchronize, event));
       out("elapsed", CU(cuEventElapsedTime, &time, event, other));
       CU(cuEventRecord, event, nullptr);
       CU(cuEventSynchronize, event);
       out("elapsed-half", CU(cuEventElapsedTime, &time, event, other));
       CU(cuEventDestroy, event);
       CU(cuEventDestroy, other);
     }},
    {"event.elapsed", kContext,
     [](Answer& out) {
       CUevent first = MakeEvent();
       CUevent second = MakeEvent();
       CU(cuEventRecord, first, nullptr);
       CU(cuEventRecord, second, nullptr);
       CU(cuEventSynchronize, second);
       float time = -1;
       out("elapsed", CU(cuEventElapsedTime, &time, first, second));
       out("not-negative", time >= 0);
       out("backwards", CU(cuEventElapsedTime, &time, second, first));
       out("not-positive", time <= 0);
       out("same", CU(cuEventElapsedTime, &time, first, first));
       out("zero", time == 0);
       out("null", CU(cuEventElapsedTime, nullptr, first, second));
       out("null-event", CU(cuEventElapsedTime, &time, nullptr, second));
       CU(cuEventDestroy, first);
       CU(cuEventDestroy, second);
     }},
    {"event.elapsed.no-timing", kContext,
     [](Answer& out) {
       CUevent first = MakeEvent(CU_EVENT_DISABLE_TIMING);
       CUevent second = MakeEvent();
       CU(cuEventRecord, first, nullptr);
       CU(cuEventRecord, second, nullptr);
       CU(cuEventSynchronize, second);
       float time = -1;
       out(CU(cuEventElapsedTime, &time, first, second));
       CU(cuEventDestroy, first);
       CU(cuEventDestroy, second);
     }},
    {"event.not-ready", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       CU(cuMemsetD32, pointer, 0U, 1);
       CU(cuCtxSynchronize);
       CUstream stream = nullptr;
       CUstream other = nullptr;
       CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
       CU(cuStreamCreate, &other, unsigned{CU_STREAM_NON_BLOCKING});
       CUevent before = MakeEvent();
       CUevent after = MakeEvent();
       CU(cuEventRecord, before, stream);
       CU(cuStreamWaitValue32, stream, pointer, 1U, unsigned{CU_STREAM_WAIT_VALUE_EQ});
       CU(cuEventRecord, after, stream);
       CU(cuEventSynchronize, before);
       float time = 0;
       out("before", CU(cuEventQuery, before));
       out("after", CU(cuEventQuery, after));
       out("stream", CU(cuStreamQuery, stream));
       out("elapsed", CU(cuEventElapsedTime, &time, before, after));
       CU(cuStreamWaitEvent, other, after, 0U);
       out("waits", CU(cuStreamQuery, other));
       out("write", CU(cuMemsetD32Async, pointer, 1U, 1, CU_STREAM_PER_THREAD));
       out("sync", CU(cuEventSynchronize, after));
       out("other", CU(cuStreamSynchronize, other));
       CU(cuStreamDestroy, stream);
       CU(cuStreamDestroy, other);
       CU(cuEventDestroy, before);
       CU(cuEventDestroy, after);
       CU(cuMemFree, pointer);
     },
     kOwnProcess},
    {"event.record-again", kContext,
     [](Answer& out) {
       CUevent event = MakeEvent();
       out("first", CU(cuEventRecord, event, nullptr));
       out("second", CU(cuEventRecord, event, CU_STREAM_PER_THREAD));
       out("sync", CU(cuEventSynchronize, event));
       out("query", CU(cuEventQuery, event));
       CU(cuEventDestroy, event);
     }},
    {"event.record-flags", kContext,
     [](Answer& out) {
       CUevent event = MakeEvent();
       out("0", CU(cuEventRecordWithFlags, event, nullptr, 0U));
       out("external",
           CU(cuEventRecordWithFlags, event, nullptr, unsigned{CU_EVENT_RECORD_EXTERNAL}));
       out("bad", CU(cuEventRecordWithFlags, event, nullptr, 8U));
       CU(cuEventDestroy, event);
     }},
    {"event.null", kContext,
     [](Answer& out) {
       out("record", CU(cuEventRecord, nullptr, nullptr));
       out("query", CU(cuEventQuery, nullptr));
       out("sync", CU(cuEventSynchronize, nullptr));
       out("destroy", CU(cuEventDestroy, nullptr));
     }},
    {"event.destroy-while-pending", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       CU(cuMemsetD32, pointer, 0U, 1);
       CU(cuCtxSynchronize);
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
       CU(cuStreamWaitValue32, stream, pointer, 1U, unsigned{CU_STREAM_WAIT_VALUE_EQ});
       CUevent event = MakeEvent();
       CU(cuEventRecord, event, stream);
       out("destroy", CU(cuEventDestroy, event));
       out("stream", CU(cuStreamQuery, stream));
       CU(cuMemsetD32Async, pointer, 1U, 1, CU_STREAM_PER_THREAD);
       out("sync", CU(cuStreamSynchronize, stream));
       CU(cuStreamDestroy, stream);
       CU(cuMemFree, pointer);
     },
     kOwnProcess},
    {"event.other-context", kContext,
     [](Answer& out) {
       CUcontext other = nullptr;
       CU(cuCtxCreate, &other, nullptr, 0U, 0);
       CUevent event = MakeEvent();
       CUcontext popped = nullptr;
       CU(cuCtxPopCurrent, &popped);
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, 0U);
       out("record", CU(cuEventRecord, event, stream));
       out("record-legacy", CU(cuEventRecord, event, nullptr));
       out("query", CU(cuEventQuery, event));
       out("wait", CU(cuStreamWaitEvent, stream, event, 0U));
     },
     kOwnProcess},
    {"event.takes-memory", kContext,
     [](Answer& out) {
       const size_t before = FreeBytes();
       for (int i = 0; i < 1000; ++i) MakeEvent();
       out("mib-of-1000",
           Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
     },
     kAlone},
    {"stream.takes-memory", kContext,
     [](Answer& out) {
       const size_t before = FreeBytes();
       for (int i = 0; i < 200; ++i) {
         CUstream stream = nullptr;
         CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
       }
       out("mib-of-200", Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
     },
     kAlone},
};

}  // namespace

std::span<const Case> EventCases() { return kCases; }

}  // namespace krux::sim::conformance
