#include "sim/cuda/mem_op.h"

#include "sim/cuda/memory.h"

namespace krux::sim {
namespace {

constexpr unsigned kMostInBatch = 256;

template <typename T>
struct WaitAction : Action {
  WaitAction(void* at, T what, unsigned how)
      : address(static_cast<T*>(at)), value(what), condition(how) {}
  void Run() override {}
  bool IsReady() override {
    const T found = __atomic_load_n(address, __ATOMIC_ACQUIRE);
    switch (condition) {
      case CU_STREAM_WAIT_VALUE_EQ:
        return found == value;
      case CU_STREAM_WAIT_VALUE_AND:
        return (found & value) != 0;
      case CU_STREAM_WAIT_VALUE_NOR:
        return static_cast<T>(~(found | value)) != 0;
      default:
        return static_cast<std::make_signed_t<T>>(found - value) >= 0;
    }
  }
  T* address;
  T value;
  unsigned condition;
};

// The bytes of an aligned value; null: not valid memory.
void* ValueAt(CUdeviceptr address, size_t bytes) {
  Allocation allocation;
  if (address == 0 || address % bytes != 0 || !FindAllocation(address, &allocation)) {
    return nullptr;
  }
  return BackingOf(address, bytes);
}

// Stores by the card: visible to the program's threads without any call of theirs.
template <typename T>
CUresult Write(CUdeviceptr address, T value, unsigned flags, Work* work) {
  void* to = ValueAt(address, sizeof(T));
  // An H200 refuses writes without a barrier.
  if (to == nullptr || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  work->make_action = [=] {
    return MakeAction([=] { __atomic_store_n(static_cast<T*>(to), value, __ATOMIC_SEQ_CST); });
  };
  return CUDA_SUCCESS;
}

template <typename T>
CUresult Wait(CUdeviceptr address, T value, unsigned flags, Work* work) {
  void* at = ValueAt(address, sizeof(T));
  if (at == nullptr || (flags & ~(3U | CU_STREAM_WAIT_VALUE_FLUSH)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const unsigned condition = flags & 3U;
  work->make_action = [=] { return std::make_unique<WaitAction<T>>(at, value, condition); };
  return CUDA_SUCCESS;
}

}  // namespace

CUresult MemOpWork(const CUstreamBatchMemOpParams& op, Work* work) {
  work->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return Write<uint32_t>(op.writeValue.address, op.writeValue.value, op.writeValue.flags, work);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return Write<uint64_t>(op.writeValue.address, op.writeValue.value64, op.writeValue.flags,
                             work);
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return Wait<uint32_t>(op.waitValue.address, op.waitValue.value, op.waitValue.flags, work);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return Wait<uint64_t>(op.waitValue.address, op.waitValue.value64, op.waitValue.flags, work);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult BatchWork(const CUstreamBatchMemOpParams* operations, unsigned count, Work* work) {
  if (operations == nullptr || count == 0 || count > kMostInBatch) return CUDA_ERROR_INVALID_VALUE;
  auto parameters = std::make_shared<NodeParameters>();
  parameters->operations.assign(operations, operations + count);
  work->type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  work->parts.clear();
  for (unsigned i = 0; i < count; ++i) {
    if (const CUresult r = MemOpWork(operations[i], &work->parts.emplace_back());
        r != CUDA_SUCCESS) {
      return r;
    }
  }
  work->parameters = std::move(parameters);
  return CUDA_SUCCESS;
}

}  // namespace krux::sim
