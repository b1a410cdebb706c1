#include "scheduler/simulate/own_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace krux::simulate {
namespace {

using testing::HasSubstr;

std::string Node(const std::string& name, int gpus) {
  return R"({"kind":"Node","metadata":{"name":")" + name +
         R"(","labels":{"nvidia.com/gpu.memory":"81920","nvidia.com/gpu.product":"H100"}},)"
         R"("status":{"allocatable":{"cpu":"16","memory":"64Gi","nvidia.com/gpu":")" +
         std::to_string(gpus) + R"("}}})";
}

std::string Pod(const std::string& name, const std::string& node, const std::string& limits) {
  return R"({"kind":"Pod","metadata":{"namespace":"n","name":")" + name +
         R"(","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"nodeName":")" + node +
         R"(","containers":[{"resources":{"requests":{"cpu":"500m"},"limits":)" + limits +
         R"(}}]},"status":{"phase":"Running"}})";
}

std::string List(const std::string& items) { return R"({"kind":"List","items":[)" + items + "]}"; }

// Four halves on four nodes: they fit on one node of two GPUs.
TEST(OwnCluster, SaysHowManyGpusCouldGo) {
  std::string items;
  for (const std::string name : {"a", "b", "c", "d"}) {
    items += Node(name, 2) + "," +
             Pod("p" + name, name, R"({"nvidia.com/gpu":"1","nvidia.com/gpumem":"40960"})") + ",";
  }
  items += Pod("plain", "a", "{}");
  const auto cluster = ParseOwnCluster(List(items));
  ASSERT_TRUE(cluster) << cluster.error().ToString();
  EXPECT_EQ(cluster->pods.size(), 4U);
  EXPECT_EQ(cluster->nodes[0].host.used_cpu_milli, 500U);
  const Repacked packed = Repack(*cluster, KRUX_BINPACK);
  EXPECT_EQ(packed.placed, 4U);
  EXPECT_EQ(packed.nodes_in_use, 1U);
  EXPECT_EQ(packed.gpus_that_could_go, 6U);
  EXPECT_LE(Repack(*cluster, KRUX_FRAGMENTATION).nodes_in_use, 2U);
  EXPECT_EQ(Repack(*cluster, KRUX_SPREAD).nodes_in_use, 4U);
  EXPECT_THAT(AdviceFor(*cluster), HasSubstr("8 GPUs on 4 nodes, 4 pods"));
}

TEST(OwnCluster, ReadsKruxNodesAndLeavesOutWhatIsWrong) {
  const auto cluster = ParseOwnCluster(
      List(R"({"kind":"KruxNode","metadata":{"name":"k"},"spec":{"gpus":[)"
           R"({"uuid":"GPU-1","model":"H200","memoryMiB":143771,"healthy":true}]}},)" +
           Node("k", 0) + "," + Pod("ok", "k", R"({"krux.io/gpu":1,"krux.io/gpumem":"4k"})") + "," +
           Pod("bad", "k", R"({"krux.io/gpu":"1","krux.io/gpucores":"101"})")));
  ASSERT_TRUE(cluster) << cluster.error().ToString();
  EXPECT_EQ(cluster->nodes[0].gpus[0].memory_mib, 143771U);
  ASSERT_EQ(cluster->pods.size(), 1U);
  EXPECT_EQ(cluster->pods[0].containers[0].memory_mib, 4000U);
  ASSERT_EQ(cluster->left_out.size(), 1U);
  EXPECT_THAT(cluster->left_out[0], HasSubstr("n/bad"));
}

TEST(OwnCluster, SaysWhatIsWrongWithTheFile) {
  EXPECT_THAT(ParseOwnCluster("{").error().ToString(), HasSubstr("not JSON"));
  EXPECT_THAT(ParseOwnCluster("[1]").error().ToString(), HasSubstr("no list"));
  EXPECT_THAT(ParseOwnCluster(List("1,null,{}")).error().ToString(), HasSubstr("no node"));
}

}  // namespace
}  // namespace krux::simulate
