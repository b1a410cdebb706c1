// The parts that ask the driver (graph memory, pools), with a driver of our own behind Real().
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "limiter/driver/driver.h"
#include "limiter/memory/graph_memory.h"
#include "limiter/memory/pools.h"
#include "limiter/memory/sizes.h"
#include "limiter/testing/memory_pages.h"

namespace krux::limiter {
namespace {

// A card with one pool for graphs and one ordinary pool. Graph handles are their own numbers.
struct FakeCard {
  struct Node {
    CUgraphNodeType type;
    uint64_t bytes;
    CUdeviceptr address;
  };
  std::map<uint64_t, std::vector<Node>> graphs;
  std::vector<Node> listed;  // nodes are handed out as indices into it
  uint64_t graph_reserved = 0, graph_live = 0;
  uint64_t pool_reserved = 0, pool_used = 0;
  int waits = 0;

  // What the driver does in a launch: finds free memory in the pool, or grows it.
  void Launch(uint64_t need, bool keeps) {
    if (graph_reserved - graph_live < need) graph_reserved = graph_live + need;
    if (keeps) graph_live += need;
  }
};
FakeCard card;

CUresult GetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  const auto& own = card.graphs[reinterpret_cast<uint64_t>(graph)];
  *count = own.size();
  for (size_t i = 0; nodes != nullptr && i < own.size(); ++i) {
    card.listed.push_back(own[i]);
    nodes[i] = reinterpret_cast<CUgraphNode>(card.listed.size());
  }
  return CUDA_SUCCESS;
}
FakeCard::Node& NodeOf(CUgraphNode node) {
  return card.listed[reinterpret_cast<uint64_t>(node) - 1];
}
CUresult GetType(CUgraphNode node, CUgraphNodeType* type) {
  *type = NodeOf(node).type;
  return CUDA_SUCCESS;
}
CUresult GetAllocation(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  parameters->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  parameters->poolProps.location.id = 0;
  parameters->bytesize = NodeOf(node).bytes;
  parameters->dptr = NodeOf(node).address;
  return CUDA_SUCCESS;
}
CUresult GetFree(CUgraphNode node, CUdeviceptr* address) {
  *address = NodeOf(node).address;
  return CUDA_SUCCESS;
}
CUresult GetChild(CUgraphNode node, CUgraph* child) {
  *child = reinterpret_cast<CUgraph>(NodeOf(node).bytes);
  return CUDA_SUCCESS;
}
CUresult GetGraphMemory(CUdevice, CUgraphMem_attribute, void* value) {
  *static_cast<cuuint64_t*>(value) = card.graph_reserved;
  return CUDA_SUCCESS;
}
CUresult TrimGraphMemory(CUdevice) {
  card.graph_reserved = card.graph_live;
  return CUDA_SUCCESS;
}
CUresult WaitForAll() {
  ++card.waits;
  return CUDA_SUCCESS;
}
CUresult GetPool(CUmemoryPool, CUmemPool_attribute attribute, void* value) {
  *static_cast<cuuint64_t*>(value) =
      attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? card.pool_reserved : card.pool_used;
  return CUDA_SUCCESS;
}
CUresult TrimPool(CUmemoryPool, size_t) {
  card.pool_reserved = RoundUp(card.pool_used, kPoolGrowthBytes);
  return CUDA_SUCCESS;
}

}  // namespace

const Driver& Real() {
  static const Driver driver = [] {
    Driver table{};
    table.cuGraphGetNodes = GetNodes;
    table.cuGraphNodeGetType = GetType;
    table.cuGraphMemAllocNodeGetParams = GetAllocation;
    table.cuGraphMemFreeNodeGetParams = GetFree;
    table.cuGraphChildGraphNodeGetGraph = GetChild;
    table.cuDeviceGetGraphMemAttribute = GetGraphMemory;
    table.cuDeviceGraphMemTrim = TrimGraphMemory;
    table.cuCtxSynchronize = WaitForAll;
    table.cuMemPoolGetAttribute = GetPool;
    table.cuMemPoolTrimTo = TrimPool;
    return table;
  }();
  return driver;
}

namespace {

constexpr uint64_t kLimit = 1000 * kMebibyte;
constexpr CUgraphNodeType kAllocates = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
constexpr CUgraphNodeType kFrees = CU_GRAPH_NODE_TYPE_MEM_FREE;
constexpr CUgraphNodeType kChild = CU_GRAPH_NODE_TYPE_GRAPH;

class DriverMemory : public ::testing::Test {
 protected:
  DriverMemory() {
    card = FakeCard();
    account_.Attach(pages_.limits.get(), pages_.account.get(), 0, 1);
    memory_.NoteNode();
  }
  uint64_t used() { return pages_.account->gpus[0].used_bytes; }

  static CUgraph Graph(uint64_t number, std::vector<FakeCard::Node> nodes) {
    card.graphs[number] = std::move(nodes);
    return reinterpret_cast<CUgraph>(number);
  }
  static CUgraphExec Exec(uint64_t number) { return reinterpret_cast<CUgraphExec>(number * 16); }
  // A graph of one allocation, which it frees unless it keeps it.
  void Make(uint64_t number, uint64_t bytes, bool keeps) {
    std::vector<FakeCard::Node> nodes = {{kAllocates, bytes, 4096 * number}};
    if (!keeps) nodes.push_back({kFrees, 0, 4096 * number});
    ASSERT_TRUE(memory_.Set(Exec(number), NeedOf(Graph(number, nodes)), 0));
    keeps_[number] = keeps;
  }
  bool Launch(uint64_t number) {
    GraphMemory::Launch launch = memory_.Find(Exec(number));
    if (!memory_.Charge(&launch, true)) return false;
    EXPECT_LE(card.graph_reserved, used());
    card.Launch(launch.need, keeps_[number]);
    memory_.Settle(launch);
    EXPECT_EQ(card.graph_reserved, used());
    EXPECT_LE(used(), kLimit);
    return true;
  }

  MemoryPages pages_{kLimit};
  Account account_;
  GraphMemory memory_{&account_};
  ManagedMemory managed_{&account_};
  Pools pools_{&account_, &managed_};
  std::map<uint64_t, bool> keeps_;
};

TEST_F(DriverMemory, NeedIsTheSumOfAllocationsInPoolSteps) {
  const GraphNeed need = NeedOf(Graph(
      1,
      {{kAllocates, 50 * kMebibyte, 4096}, {kAllocates, 50 * kMebibyte, 8192}, {kFrees, 0, 4096}}));
  EXPECT_EQ(need.bytes, 128 * kMebibyte);
  EXPECT_FALSE(need.frees_all);
  EXPECT_FALSE(need.several_devices);
}

TEST_F(DriverMemory, NeedOfChildGraphsCounts) {
  Graph(2, {{kAllocates, 40 * kMebibyte, 4096}, {kFrees, 0, 4096}});
  const GraphNeed need = NeedOf(Graph(1, {{kChild, 2, 0}, {kChild, 2, 0}}));
  EXPECT_EQ(need.bytes, 96 * kMebibyte);
  EXPECT_TRUE(need.frees_all);
  EXPECT_EQ(NeedOf(Graph(3, {{kChild, 3, 0}})).bytes, 0U);  // of itself: it ends
}

TEST_F(DriverMemory, GraphIsChargedByWhatItsPoolReserves) {
  Make(1, 100 * kMebibyte, false);
  EXPECT_EQ(used(), 0U);
  ASSERT_TRUE(Launch(1));
  EXPECT_EQ(used(), 128 * kMebibyte);
  ASSERT_TRUE(Launch(1));
  EXPECT_EQ(used(), 128 * kMebibyte);
  EXPECT_TRUE(memory_.Trim(0));
  EXPECT_EQ(used(), 0U);
}

TEST_F(DriverMemory, GraphLargerThanHalfTheLimitGoesOnAndOnWithoutWaiting) {
  Make(1, 800 * kMebibyte, false);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Launch(1));
  EXPECT_EQ(card.waits, 0);
}

TEST_F(DriverMemory, GraphsThatTakeTurnsFindTheirMemoryWhenNothingRuns) {
  Make(1, 800 * kMebibyte, false);
  Make(2, 700 * kMebibyte, false);
  ASSERT_TRUE(Launch(1));
  ASSERT_TRUE(Launch(2));  // trims first
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Launch(1));
    ASSERT_TRUE(Launch(2));
  }
  EXPECT_GT(card.waits, 0);
}

TEST_F(DriverMemory, MemoryThatAGraphKeepsIsNotFoundByAnother) {
  for (uint64_t i = 1; i <= 15; ++i) {
    Make(i, 64 * kMebibyte, true);
    ASSERT_TRUE(Launch(i)) << i;
  }
  Make(16, 64 * kMebibyte, true);
  EXPECT_FALSE(Launch(16));
  EXPECT_EQ(used(), 960 * kMebibyte);
}

TEST_F(DriverMemory, GraphThatFreesAllDoesNotFindWhatAnotherKeeps) {
  Make(1, 600 * kMebibyte, false);
  Make(2, 600 * kMebibyte, true);
  ASSERT_TRUE(Launch(1));
  ASSERT_TRUE(Launch(2));  // in the memory of the first
  EXPECT_FALSE(Launch(1));
}

TEST_F(DriverMemory, ManagedPoolStaysChargedByTheMostThatItHad) {
  const auto pool = reinterpret_cast<CUmemoryPool>(64);
  pools_.OnCreate(pool, {0, true});
  uint64_t growth = 0;
  ASSERT_TRUE(pools_.BeforeAllocation(pool, {0, true}, 100 * kMebibyte, &growth));
  card.pool_reserved = 128 * kMebibyte;
  ASSERT_TRUE(pools_.AfterAllocation(pool, 0, growth));
  card.pool_reserved = 0;
  pools_.SettleAll();
  EXPECT_EQ(used(), 128 * kMebibyte);
  EXPECT_EQ(pages_.account->processes[0].gpus[0].unlisted_bytes, 128 * kMebibyte);
  pools_.OnDestroy(pool, false);
  EXPECT_EQ(used(), 126 * kMebibyte);
  EXPECT_EQ(pages_.account->processes[0].gpus[0].unlisted_bytes, 126 * kMebibyte);
}

// What the driver did on an H200: takes steps of 128 MiB when none of its own is left, at the first
// touch, and gives freed memory back by itself.
struct ManagedCard {
  uint64_t held = 0, rest = 0;
  void Touch(uint64_t bytes) {
    while (rest < bytes) {
      held += kManagedStepBytes;
      rest += kManagedStepBytes;
    }
    rest -= bytes;
  }
};

TEST_F(DriverMemory, ManagedMemoryIsChargedInStepsOfAProcess) {
  ASSERT_TRUE(managed_.Grow(0, 2 * kMebibyte));
  EXPECT_EQ(used(), 128 * kMebibyte);
  ASSERT_TRUE(managed_.Grow(0, 66 * kMebibyte));
  EXPECT_EQ(used(), 128 * kMebibyte);
  ASSERT_TRUE(managed_.Grow(0, 512 * kMebibyte));
  EXPECT_EQ(used(), 640 * kMebibyte);
  EXPECT_FALSE(managed_.Grow(0, 420 * kMebibyte));
  EXPECT_FALSE(managed_.Grow(0, UINT64_MAX));
  EXPECT_EQ(used(), 640 * kMebibyte);
}

TEST_F(DriverMemory, FreedManagedMemoryLeavesTheRestOfAStep) {
  ASSERT_TRUE(managed_.Grow(0, 2 * kMebibyte));
  managed_.Shrink(0, 2 * kMebibyte);
  EXPECT_EQ(used(), 126 * kMebibyte);
  ASSERT_TRUE(managed_.Grow(0, 200 * kMebibyte));
  EXPECT_EQ(used(), 326 * kMebibyte);
  managed_.Undo(0, 200 * kMebibyte);
  EXPECT_EQ(used(), 126 * kMebibyte);
  EXPECT_EQ(pages_.account->processes[0].gpus[0].unlisted_bytes, 126 * kMebibyte);
}

// Whatever is touched before it is freed: the card never holds more than is charged.
TEST_F(DriverMemory, ManagedMemoryNeverHoldsMoreThanIsCharged) {
  std::mt19937 random(5);
  ManagedCard managed_card;
  struct Block {
    uint64_t bytes;
    bool touched;
  };
  std::vector<Block> blocks;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bytes = (1 + random() % 80) * 2 * kMebibyte;
    if (random() % 2 == 0) {
      if (managed_.Grow(0, bytes)) blocks.push_back({bytes, false});
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      Block& block = blocks.back();
      if (random() % 2 == 0 && !block.touched) {
        block.touched = true;
        managed_card.Touch(block.bytes);
      } else {
        managed_.Shrink(0, block.bytes);
        if (block.touched) managed_card.held -= block.bytes;
        blocks.pop_back();
      }
    }
    ASSERT_LE(managed_card.held, used()) << i;
    ASSERT_LE(used(), kLimit);
  }
}

TEST_F(DriverMemory, PoolIsTrimmedBeforeARefusal) {
  const auto pool = reinterpret_cast<CUmemoryPool>(64);
  pools_.OnCreate(pool, {0, false});
  uint64_t growth = 0;
  ASSERT_TRUE(pools_.BeforeAllocation(pool, {0, false}, 960 * kMebibyte, &growth));
  card.pool_reserved = 960 * kMebibyte;
  ASSERT_TRUE(pools_.AfterAllocation(pool, 0, growth));
  EXPECT_FALSE(account_.Charge(0, 500 * kMebibyte));
  EXPECT_TRUE(pools_.TrimAll(0));
  EXPECT_TRUE(account_.Charge(0, 500 * kMebibyte));
}

TEST_F(DriverMemory, PoolOfAnotherProcessOrOfTheHostIsNotCharged) {
  const auto pool = reinterpret_cast<CUmemoryPool>(64);
  pools_.OnCreate(pool, {Pools::kOnHost, false});
  card.pool_reserved = 960 * kMebibyte;
  pools_.SettleAll();
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(pools_.PlaceOf(pool, 0).gpu, Pools::kOnHost);
}

}  // namespace
}  // namespace krux::limiter
