// Streams: making, asking, waiting, values written and awaited, host functions.
#include <atomic>
#include <string>
#include <vector>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

struct Made {
  CUstream stream = nullptr;
  explicit Made(unsigned flags = CU_STREAM_NON_BLOCKING) { CU(cuStreamCreate, &stream, flags); }
  ~Made() { CU(cuStreamDestroy, stream); }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
};

void Priority(Answer& out, int wanted) {
  CUstream stream = nullptr;
  out("create", CU(cuStreamCreateWithPriority, &stream, unsigned{CU_STREAM_NON_BLOCKING}, wanted));
  int priority = 77;
  out("get", CU(cuStreamGetPriority, stream, &priority));
  out("value", priority);
  CU(cuStreamDestroy, stream);
}

void CUDA_CB AddOne(void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_add(1); }
void CUDA_CB Called(CUstream, CUresult result, void* seen) {
  *static_cast<std::atomic<int>*>(seen) = static_cast<int>(result);
}
void CUDA_CB CallsDriver(void* result) {
  CUdeviceptr pointer = 0;
  *static_cast<std::atomic<int>*>(result) = static_cast<int>(CU(cuMemAlloc, &pointer, 4096));
}

void WaitValue(Answer& out, unsigned flags, cuuint32_t waited, cuuint32_t written) {
  CUdeviceptr pointer = 0;
  CU(cuMemAlloc, &pointer, 64);
  CU(cuMemsetD32, pointer, 0U, 1);
  CU(cuCtxSynchronize);
  const Made waiter;
  const Made writer;
  out("wait", CU(cuStreamWaitValue32, waiter.stream, pointer, waited, flags));
  // NOR of a zero in memory is true at once, but perhaps not yet seen.
  if (flags != CU_STREAM_WAIT_VALUE_NOR) out("query", CU(cuStreamQuery, waiter.stream));
  out("write", CU(cuStreamWriteValue32, writer.stream, pointer, written, 0U));
  out("sync", CU(cuStreamSynchronize, waiter.stream));
  CU(cuMemFree, pointer);
}

const Case kCases[] = {
    {"stream.create.flags", kContext,
     [](Answer& out) {
       CUstream stream = nullptr;
       for (const unsigned flags : {0U, 1U, 2U, 0x100U}) {
         const CUresult result = CU(cuStreamCreate, &stream, flags);
         out(std::to_string(flags), result);
         if (result != CUDA_SUCCESS) continue;
         unsigned seen = 77;
         CU(cuStreamGetFlags, stream, &seen);
         out("seen", seen);
         CU(cuStreamDestroy, stream);
       }
       out("null", CU(cuStreamCreate, nullptr, 0U));
     }},
    {"stream.priority.0", kContext, [](Answer& out) { Priority(out, 0); }},
    {"stream.priority.high", kContext, [](Answer& out) { Priority(out, -5); }},
    {"stream.priority.too-high", kContext, [](Answer& out) { Priority(out, -100); }},
    {"stream.priority.positive", kContext, [](Answer& out) { Priority(out, 3); }},
    {"stream.default.properties", kContext,
     [](Answer& out) {
       for (const CUstream stream :
            {static_cast<CUstream>(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
         int priority = 77;
         unsigned flags = 77;
         unsigned long long id = 77;
         CUcontext context = nullptr;
         out("priority", CU(cuStreamGetPriority, stream, &priority));
         out("value", priority);
         out("flags", CU(cuStreamGetFlags, stream, &flags));
         out("value", flags);
         out("context", CU(cuStreamGetCtx, stream, &context));
         out("primary", context == PrimaryContext());
         out("id", CU(cuStreamGetId, stream, &id));
         out("query", CU(cuStreamQuery, stream));
       }
     }},
    {"stream.id.of-default", kContext,
     [](Answer& out) {
       unsigned long long zero = 0;
       unsigned long long legacy = 0;
       unsigned long long mine = 0;
       CU(cuStreamGetId, nullptr, &zero);
       CU(cuStreamGetId, CU_STREAM_LEGACY, &legacy);
       CU(cuStreamGetId, CU_STREAM_PER_THREAD, &mine);
       out("legacy-is-zero", zero == legacy);
       out("per-thread-is-zero", zero == mine);
       const Made made;
       unsigned long long own = 0;
       CU(cuStreamGetId, made.stream, &own);
       out("own-differs", own != zero && own != mine);
       out("null", CU(cuStreamGetId, made.stream, nullptr));
     }},
    {"stream.get.nulls", kContext,
     [](Answer& out) {
       const Made made;
       out("priority", CU(cuStreamGetPriority, made.stream, nullptr));
       out("flags", CU(cuStreamGetFlags, made.stream, nullptr));
       out("context", CU(cuStreamGetCtx, made.stream, nullptr));
     }},
    {"stream.device", kContext,
     [](Answer& out) {
       const Made made;
       CUdevice device = 77;
       out("result", CU(cuStreamGetDevice, made.stream, &device));
       out("device", device);
     }},
    {"stream.destroy.default", kContext,
     [](Answer& out) {
       out("null", CU(cuStreamDestroy, nullptr));
       out("legacy", CU(cuStreamDestroy, CU_STREAM_LEGACY));
       out("per-thread", CU(cuStreamDestroy, CU_STREAM_PER_THREAD));
     },
     kOwnProcess},
    {"stream.destroy.with-work", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64 << 20);
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, 0U);
       for (int i = 0; i < 100; ++i) {
         CU(cuMemsetD8Async, pointer, static_cast<unsigned char>(i), 64 << 20, stream);
       }
       out("destroy", CU(cuStreamDestroy, stream));
       out("sync", CU(cuCtxSynchronize));
       unsigned char byte = 0;
       CU(cuMemcpyDtoH, &byte, pointer, 1);
       out("byte", static_cast<int>(byte));
       CU(cuMemFree, pointer);
     }},
    {"stream.wait-event", kContext,
     [](Answer& out) {
       const Made made;
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       out("unrecorded", CU(cuStreamWaitEvent, made.stream, event, 0U));
       out("flags", CU(cuStreamWaitEvent, made.stream, event, 8U));
       out("null", CU(cuStreamWaitEvent, made.stream, nullptr, 0U));
       out("query", CU(cuStreamQuery, made.stream));
       CU(cuEventDestroy, event);
     }},
    {"stream.host-function", kContext,
     [](Answer& out) {
       const Made made;
       std::atomic<int> counter{0};
       for (int i = 0; i < 10; ++i) CU(cuLaunchHostFunc, made.stream, AddOne, &counter);
       out("sync", CU(cuStreamSynchronize, made.stream));
       out("count", counter.load());
       out("null", CU(cuLaunchHostFunc, made.stream, nullptr, nullptr));
     }},
    {"stream.host-function.calls-driver", kContext,
     [](Answer& out) {
       const Made made;
       std::atomic<int> result{-1};
       CU(cuLaunchHostFunc, made.stream, CallsDriver, &result);
       out("sync", CU(cuStreamSynchronize, made.stream));
       out("alloc", static_cast<CUresult>(result.load()));
     },
     kOwnProcess},
    {"stream.callback", kContext,
     [](Answer& out) {
       const Made made;
       std::atomic<int> seen{-1};
       out("add", CU(cuStreamAddCallback, made.stream, Called, &seen, 0U));
       out("sync", CU(cuStreamSynchronize, made.stream));
       out("status", static_cast<CUresult>(seen.load()));
       out("flags", CU(cuStreamAddCallback, made.stream, Called, &seen, 1U));
       out("null", CU(cuStreamAddCallback, made.stream, nullptr, &seen, 0U));
     }},
    {"stream.wait-value.geq", kContext,
     [](Answer& out) { WaitValue(out, CU_STREAM_WAIT_VALUE_GEQ, 5, 6); }},
    {"stream.wait-value.eq", kContext,
     [](Answer& out) { WaitValue(out, CU_STREAM_WAIT_VALUE_EQ, 5, 5); }},
    {"stream.wait-value.and", kContext,
     [](Answer& out) { WaitValue(out, CU_STREAM_WAIT_VALUE_AND, 4, 7); }},
    {"stream.wait-value.nor", kContext,
     [](Answer& out) { WaitValue(out, CU_STREAM_WAIT_VALUE_NOR, 0xffffff00U, 0xf); }},
    {"stream.wait-value.bad", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       const Made made;
       out("flags", CU(cuStreamWaitValue32, made.stream, pointer, 0U, 77U));
       out("unaligned", CU(cuStreamWaitValue32, made.stream, pointer + 2, 0U, 0U));
       out("unaligned-64", CU(cuStreamWaitValue64, made.stream, pointer + 4, 0U, 0U));
       out("zero", CU(cuStreamWaitValue32, made.stream, 0, 0U, 0U));
       out("junk", CU(cuStreamWaitValue32, made.stream, 0x1000, 0U, 0U));
       CU(cuMemFree, pointer);
     },
     kOwnProcess},
    {"stream.write-value", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       const Made made;
       out("32", CU(cuStreamWriteValue32, made.stream, pointer, 0x01020304U, 0U));
       out("64", CU(cuStreamWriteValue64, made.stream, pointer + 8, 7U, 0U));
       out("no-barrier", CU(cuStreamWriteValue32, made.stream, pointer + 16, 9U,
                            unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}));
       out("flags", CU(cuStreamWriteValue32, made.stream, pointer, 1U, 77U));
       out("unaligned", CU(cuStreamWriteValue64, made.stream, pointer + 4, 1U, 0U));
       out("sync", CU(cuStreamSynchronize, made.stream));
       std::vector<unsigned> words(5);
       CU(cuMemcpyDtoH, words.data(), pointer, 20);
       out("first", words[0]);
       out("third", words[2]);
       out("fifth", words[4]);
       CU(cuMemFree, pointer);
     }},
    {"stream.batch", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       CU(cuMemsetD32, pointer, 0U, 4);
       const Made made;
       std::vector<CUstreamBatchMemOpParams> operations(2);
       operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
       operations[0].writeValue.address = pointer;
       operations[0].writeValue.value = 5;
       operations[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
       operations[1].waitValue.address = pointer;
       operations[1].waitValue.value = 5;
       operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
       out("batch", CU(cuStreamBatchMemOp, made.stream, 2U, operations.data(), 0U));
       out("sync", CU(cuStreamSynchronize, made.stream));
       out("zero", CU(cuStreamBatchMemOp, made.stream, 0U, operations.data(), 0U));
       out("flags", CU(cuStreamBatchMemOp, made.stream, 2U, operations.data(), 1U));
       operations[0].operation = Odd<CUstreamBatchMemOpType>(77);
       out("operation", CU(cuStreamBatchMemOp, made.stream, 1U, operations.data(), 0U));
       CU(cuStreamSynchronize, made.stream);
       CU(cuMemFree, pointer);
     },
     kOwnProcess},
    {"stream.legacy-waits", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       CU(cuMemsetD32, pointer, 0U, 1);
       CU(cuCtxSynchronize);
       const Made blocking(CU_STREAM_DEFAULT);
       const Made free;
       CU(cuStreamWaitValue32, blocking.stream, pointer, 1U, unsigned{CU_STREAM_WAIT_VALUE_EQ});
       CUdeviceptr other = 0;
       CU(cuMemAlloc, &other, 64);
       out("legacy", CU(cuMemsetD8Async, other, static_cast<unsigned char>(1), 64, nullptr));
       out("legacy-query", CU(cuStreamQuery, nullptr));
       out("free-query", CU(cuStreamQuery, free.stream));
       CU(cuStreamWriteValue32, free.stream, pointer, 1U, 0U);
       out("sync", CU(cuStreamSynchronize, nullptr));
       CU(cuMemFree, pointer);
       CU(cuMemFree, other);
     },
     kOwnProcess},
    {"stream.attribute.policy", kContext,
     [](Answer& out) {
       const Made made;
       CUstreamAttrValue value{};
       out("get", CU(cuStreamGetAttribute, made.stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
                     &value));
       out("value", static_cast<int>(value.syncPolicy));
       value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
       out("set", CU(cuStreamSetAttribute, made.stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
                     &value));
       out("priority", CU(cuStreamGetAttribute, made.stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
       out("bad", CU(cuStreamGetAttribute, made.stream, Odd<CUstreamAttrID>(500), &value));
       const Made other;
       out("copy", CU(cuStreamCopyAttributes, other.stream, made.stream));
     }},
    {"stream.other-context", kContext,
     [](Answer& out) {
       CUcontext other = nullptr;
       CU(cuCtxCreate, &other, nullptr, 0U, 0);
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, 0U);
       CUcontext popped = nullptr;
       CU(cuCtxPopCurrent, &popped);
       out("query", CU(cuStreamQuery, stream));
       out("sync", CU(cuStreamSynchronize, stream));
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       out("set", CU(cuMemsetD8Async, pointer, static_cast<unsigned char>(1), 64, stream));
       out("launch", Launch(Kernel("empty"), stream));
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       out("record", CU(cuEventRecord, event, stream));
     },
     kOwnProcess},
};

}  // namespace

std::span<const Case> StreamCases() { return kCases; }

}  // namespace krux::sim::conformance
