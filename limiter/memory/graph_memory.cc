#include "limiter/memory/graph_memory.h"

#include "limiter/driver/driver.h"
#include "limiter/life/page_memory.h"
#include "limiter/memory/sizes.h"

namespace krux::limiter {
namespace {

constexpr int kDeepestChild = 16;

uint64_t KeyOf(CUgraphExec exec) { return reinterpret_cast<uint64_t>(exec); }

uint64_t Reserved(CUdevice device) {
  cuuint64_t bytes = 0;
  return Real().cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                             &bytes) == CUDA_SUCCESS
             ? bytes
             : 0;
}

// The nodes of a graph, in memory of their own.
class Nodes {
 public:
  explicit Nodes(CUgraph graph) {
    if (Real().cuGraphGetNodes(graph, nullptr, &count_) != CUDA_SUCCESS || count_ == 0) {
      count_ = 0;
      return;
    }
    nodes_ = static_cast<CUgraphNode*>(MapPages(count_ * sizeof(CUgraphNode)));
    mapped_ = count_;
    if (nodes_ == nullptr || Real().cuGraphGetNodes(graph, nodes_, &count_) != CUDA_SUCCESS) {
      count_ = 0;
    }
  }
  ~Nodes() {
    if (nodes_ != nullptr) UnmapPages(nodes_, mapped_ * sizeof(CUgraphNode));
  }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;
  const CUgraphNode* begin() const { return nodes_; }
  const CUgraphNode* end() const { return nodes_ + count_; }

 private:
  CUgraphNode* nodes_ = nullptr;
  size_t count_ = 0, mapped_ = 0;
};

struct Sum {
  GraphNeed need;
  uint64_t open = 0;  // the addresses that are allocated and not freed, mixed together
};

void AddAllocation(CUgraphNode node, Sum* sum) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  if (Real().cuGraphMemAllocNodeGetParams(node, &parameters) != CUDA_SUCCESS) return;
  if (parameters.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return;
  GraphNeed& need = sum->need;
  const CUdevice device = parameters.poolProps.location.id;
  need.several_devices = need.several_devices || (need.bytes != 0 && need.device != device);
  need.device = device;
  need.bytes += OwnBytes(parameters.bytesize);
  if (need.bytes > kTooLarge) need.bytes = kTooLarge;
  sum->open ^= MixBits(parameters.dptr);
}

void AddGraph(CUgraph graph, int depth, Sum* sum) {
  if (depth == kDeepestChild) return;
  for (const CUgraphNode node : Nodes(graph)) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    if (Real().cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
    CUgraph child = nullptr;
    CUdeviceptr freed = 0;
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      AddAllocation(node, sum);
    } else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
               Real().cuGraphMemFreeNodeGetParams(node, &freed) == CUDA_SUCCESS) {
      sum->open ^= MixBits(freed);
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
               Real().cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
      AddGraph(child, depth + 1, sum);
    }
  }
}

}  // namespace

GraphNeed NeedOf(CUgraph graph) {
  Sum sum;
  AddGraph(graph, 0, &sum);
  sum.need.bytes = GraphBytes(sum.need.bytes);
  sum.need.frees_all = sum.open == 0;
  return sum.need;
}

bool GraphMemory::Set(CUgraphExec exec, const GraphNeed& need, uint32_t gpu) {
  const LockGuard guard(lock_);
  Exec* row = execs_.Insert(KeyOf(exec));
  if (row == nullptr) return false;
  *row = Exec{need.bytes, gpu, need.device, need.frees_all, 0};
  pools_[gpu].device = need.device;
  return true;
}

void GraphMemory::Forget(CUgraphExec exec) {
  const LockGuard guard(lock_);
  execs_.Remove(KeyOf(exec));
}

GraphMemory::Launch GraphMemory::Find(CUgraphExec exec) {
  const LockGuard guard(lock_);
  const Exec* row = execs_.Find(KeyOf(exec));
  return row == nullptr ? Launch{} : Launch{row->bytes, 0, row->gpu, exec};
}

bool GraphMemory::FindsItsMemory(const Launch& launch, bool may_wait) {
  {
    const LockGuard guard(lock_);
    const Exec* row = execs_.Find(KeyOf(launch.exec));
    const Pool& pool = pools_[launch.gpu];
    if (row == nullptr || !row->frees_all || row->era != pool.era) return false;
    if (pool.last_exec == KeyOf(launch.exec)) return true;
    if (pool.holds || !may_wait) return false;
  }
  return Real().cuCtxSynchronize() == CUDA_SUCCESS;
}

bool GraphMemory::Charge(Launch* launch, bool may_wait) {
  const uint64_t need = launch->need;
  if (account_->Charge(launch->gpu, need)) {
    launch->charged = need;
    return true;
  }
  if (FindsItsMemory(*launch, may_wait)) return true;
  if (!may_wait) return false;
  Real().cuCtxSynchronize();
  Trim(launch->gpu);
  if (!account_->Charge(launch->gpu, need)) return false;
  launch->charged = need;
  return true;
}

void GraphMemory::SettleLocked(uint32_t gpu, uint64_t ahead) {
  Pool& pool = pools_[gpu];
  const uint64_t reserved = Reserved(pool.device);
  const uint64_t charged = pool.charged + ahead;
  if (reserved > charged) {
    account_->ChargeAnyway(gpu, reserved - charged);
  } else {
    account_->Return(gpu, charged - reserved);
  }
  pool.charged = reserved;
}

void GraphMemory::Settle(const Launch& launch) {
  const LockGuard guard(lock_);
  Pool& pool = pools_[launch.gpu];
  if (Exec* row = execs_.Find(KeyOf(launch.exec))) {
    row->era = pool.era;
    pool.holds = pool.holds || !row->frees_all;
  }
  pool.last_exec = KeyOf(launch.exec);
  SettleLocked(launch.gpu, launch.charged);
}

void GraphMemory::TrimLocked(uint32_t gpu) {
  Pool& pool = pools_[gpu];
  SettleLocked(gpu, 0);
  ++pool.era;
  pool.last_exec = 0;
  pool.holds = pool.charged != 0;
}

bool GraphMemory::Trim(uint32_t gpu) {
  if (!any()) return false;
  const LockGuard guard(lock_);
  Pool& pool = pools_[gpu];
  if (pool.device < 0 || pool.charged == 0) return false;
  const uint64_t before = pool.charged;
  Real().cuDeviceGraphMemTrim(pool.device);
  TrimLocked(gpu);
  return pool.charged < before;
}

void GraphMemory::SettleAll() {
  const LockGuard guard(lock_);
  for (uint32_t gpu = 0; gpu < kMaxPageGpus; ++gpu) {
    if (pools_[gpu].device >= 0) TrimLocked(gpu);
  }
}

void GraphMemory::ForgetAfterFork() {
  lock_.Forget();
  execs_.Forget();
  any_.store(false, std::memory_order_relaxed);
  for (Pool& pool : pools_) pool = Pool{};
}

}  // namespace krux::limiter
