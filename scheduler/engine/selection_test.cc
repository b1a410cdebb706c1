#include "scheduler/engine/selection.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scheduler/engine/krux_engine.h"

namespace {

constexpr char kH100[] = "NVIDIA H100 80GB HBM3";

TEST(Selection, WordsMatchWholeInAnyCase) {
  EXPECT_EQ(krux_matches("h100", kH100), 1);
  EXPECT_EQ(krux_matches("A100, H100", kH100), 1);
  EXPECT_EQ(krux_matches("NVIDIA H100", kH100), 1);
  EXPECT_EQ(krux_matches("H10", kH100), 0);
  EXPECT_EQ(krux_matches("A10", "NVIDIA A100-SXM4-80GB"), 0);
  EXPECT_EQ(krux_matches("A100", "NVIDIA A100-SXM4-80GB"), 1);
  EXPECT_EQ(krux_matches("", kH100), 0);
  EXPECT_EQ(krux_matches(" , ,", kH100), 0);
  EXPECT_EQ(krux_matches("x", nullptr), 0);
}

TEST(Selection, KeysAreOfTheNameWithoutSpaces) {
  const std::string name = "GPU-12345678";
  EXPECT_EQ(krux_uuid_key(name.data(), name.size()), krux::engine::UuidKey(" GPU-12345678 "));
  EXPECT_NE(krux_uuid_key(name.data(), name.size()), krux::engine::UuidKey("GPU-12345679"));
}

krux_gpu Card(uint64_t uuid, uint32_t model) {
  krux_gpu card{};
  card.memory_mib = 1000;
  card.slots = 16;
  card.flags = KRUX_GPU_HEALTHY;
  card.uuid = uuid;
  card.model = model;
  return card;
}

struct Answer {
  int code;
  uint32_t gpu;
  std::string reason;
};

Answer Plan(const std::vector<krux_gpu>& gpus, const krux_pod& pod, uint32_t count = 1) {
  const krux_container container{100, 0, 0, count, KRUX_APP};
  krux_placement placement{};
  krux_verdict verdict;
  const int code = krux_plan(nullptr, nullptr, gpus.data(), gpus.size(), &pod, &container, 1,
                             &placement, &verdict);
  char text[KRUX_MAX_SENTENCE];
  krux_reason(&verdict, text, sizeof text);
  return {code, placement.gpu[0], text};
}

TEST(Selection, ModelsAreTakenAndRefused) {
  const std::vector<krux_gpu> gpus = {Card(1, 0), Card(2, 1)};
  krux_pod pod{};
  pod.use_models = 2;
  EXPECT_EQ(Plan(gpus, pod).gpu, 1U);
  pod.use_models = 0;
  pod.no_models = 1;
  EXPECT_EQ(Plan(gpus, pod).gpu, 1U);
  EXPECT_EQ(Plan(gpus, pod, 2).code, KRUX_OTHER_MODEL);
  pod.no_models = 3;
  EXPECT_EQ(Plan(gpus, pod).reason, "node(s) with GPUs of other models than the pod's lists allow");
}

TEST(Selection, UuidsAreTakenAndRefused) {
  const std::vector<krux_gpu> gpus = {Card(1, 0), Card(2, 0), Card(0, 0)};
  krux_pod pod{};
  pod.use_uuid_count = 1;
  pod.use_uuids[0] = 2;
  EXPECT_EQ(Plan(gpus, pod).gpu, 1U);
  EXPECT_EQ(Plan(gpus, pod, 2).reason,
            "node(s) where the pod's lists of GPU UUIDs allow 1 GPU(s), a container asks for 2");
  pod.no_uuid_count = 1;
  pod.no_uuids[0] = 2;
  EXPECT_EQ(Plan(gpus, pod).code, KRUX_OTHER_UUID);
  pod.use_uuid_count = KRUX_MAX_UUIDS + 1;
  EXPECT_EQ(Plan(gpus, pod).code, KRUX_BAD_ARGUMENT);
}

TEST(Selection, CordonedAndMigGpusAreNamedInTheReason) {
  std::vector<krux_gpu> gpus = {Card(1, 0), Card(2, 0)};
  for (auto& gpu : gpus) gpu.flags |= KRUX_GPU_CORDONED;
  EXPECT_EQ(Plan(gpus, {}).reason, "node(s) whose GPUs are cordoned");
  gpus[0].flags = 0;
  EXPECT_EQ(Plan(gpus, {}).reason, "node(s) without a healthy GPU (1 unhealthy, 1 cordoned)");
  for (auto& gpu : gpus) gpu.flags = KRUX_GPU_HEALTHY | KRUX_GPU_MIG;
  EXPECT_EQ(Plan(gpus, {}).reason, "node(s) whose GPUs are in MIG mode, which Krux does not share");
}

}  // namespace
