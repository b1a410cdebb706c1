#include "agent/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "protocol/names.h"

namespace krux::agent {
namespace {

using testing::HasSubstr;

constexpr char kGpu1[] = "GPU-00000000-0000-0000-0000-000000000001";
constexpr char kGpu2[] = "GPU-00000000-0000-0000-0000-000000000002";

NodeView OneCard(uint64_t memory_mib = 1000) {
  return NodeView{"n1", {{kGpu1, memory_mib, ""}}, true};
}

GpuGrant Gpu(uint64_t memory_mib, uint32_t cores, const char* uuid = kGpu1) {
  return GpuGrant{uuid, memory_mib, cores, ComputePolicy::kBalance, Priority::kNormal};
}

// A pod with one container a grant, and the annotation that the scheduler would have written.
Pod PodWith(const std::string& uid,
            const std::vector<std::pair<ContainerKind, std::vector<GpuGrant>>>& containers) {
  Pod pod;
  pod.uid = uid;
  pod.name_space = "default";
  pod.name = "pod-" + uid;
  pod.runtime_class = "krux";
  PodGrant grant{uid, "n1", 1, {}};
  for (size_t i = 0; i < containers.size(); ++i) {
    const std::string name = "c" + std::to_string(i);
    const auto& [kind, gpus] = containers[i];
    pod.containers.push_back({name, kind, gpus.size(), !gpus.empty()});
    if (!gpus.empty()) grant.containers[name] = gpus;
  }
  pod.annotations[names::kAnnotationGrant] = GrantToJson(grant);
  return pod;
}

Pod AppPod(const std::string& uid, uint64_t memory_mib, uint32_t cores) {
  return PodWith(uid, {{ContainerKind::kApp, {Gpu(memory_mib, cores)}}});
}

Verdict Admit(const Ledger& ledger, const Pod& pod, const std::string& container = "c0") {
  return AdmitContainer(OneCard(), ledger, &pod, {pod.uid, container});
}

// Admits and enters it, as the agent does. False when it does not fit.
bool Enter(Ledger& ledger, const Pod& pod, const std::string& container, const std::string& id) {
  Verdict verdict = Admit(ledger, pod, container);
  if (verdict.kind != Verdict::Kind::kAdmitted) return false;
  ledger.PutPod(std::move(verdict.plan));
  return ledger.SetInstance({pod.uid, container}, id, "/kubepods/" + id).has_value();
}

TEST(AdmissionTest, AdmitsExactlyTheGrant) {
  const Verdict verdict = Admit(Ledger(), AppPod("u1", 400, 30));
  ASSERT_EQ(verdict.kind, Verdict::Kind::kAdmitted);
  EXPECT_EQ(verdict.plan.Find("c0")->gpus, std::vector<GpuGrant>{Gpu(400, 30)});
}

TEST(AdmissionTest, WaitsWhenMemoryOrCoresAreHeldByOthersAndSaysWhoHoldsThem) {
  Ledger ledger;
  ASSERT_TRUE(Enter(ledger, AppPod("u1", 600, 30), "c0", "id1"));
  const Verdict memory = Admit(ledger, AppPod("u2", 401, 10));
  EXPECT_EQ(memory.kind, Verdict::Kind::kWait);
  EXPECT_EQ(memory.error.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(memory.error.message, HasSubstr("400 of 1000 MiB"));
  EXPECT_THAT(memory.error.message, HasSubstr("default/pod-u1"));
  EXPECT_EQ(Admit(ledger, AppPod("u2", 400, 71)).kind, Verdict::Kind::kWait);
  EXPECT_EQ(Admit(ledger, AppPod("u2", 400, 70)).kind, Verdict::Kind::kAdmitted);
}

TEST(AdmissionTest, EqualSizedPodsGetEachTheirOwn) {
  Ledger ledger;
  ASSERT_TRUE(Enter(ledger, AppPod("u1", 500, 50), "c0", "id1"));
  ASSERT_TRUE(Enter(ledger, AppPod("u2", 500, 50), "c0", "id2"));
  const LedgerContainer* container = nullptr;
  EXPECT_EQ(ledger.FindInstance("id1", &container)->uid, "u1");
  EXPECT_EQ(ledger.FindInstance("id2", &container)->uid, "u2");
  EXPECT_FALSE(Enter(ledger, AppPod("u3", 500, 50), "c0", "id3"));
}

TEST(AdmissionTest, NewInstanceOfAContainerReplacesTheOldOne) {
  Ledger ledger;
  const Pod pod = AppPod("u1", 900, 90);
  ASSERT_TRUE(Enter(ledger, pod, "c0", "first"));
  ASSERT_TRUE(Enter(ledger, pod, "c0", "second"));
  EXPECT_EQ(ledger.FindInstance("first", nullptr), nullptr);
  EXPECT_EQ(ledger.LoadOf(kGpu1), (GpuLoad{900, 90}));
}

TEST(AdmissionTest, PodOfTheSameNameIsAnotherPod) {
  Ledger ledger;
  ASSERT_TRUE(Enter(ledger, AppPod("u1", 900, 10), "c0", "id1"));
  Pod reused = AppPod("u2", 900, 10);
  reused.name = "pod-u1";
  EXPECT_EQ(Admit(ledger, reused).kind, Verdict::Kind::kWait);
}

TEST(AdmissionTest, HoldsThePeakOfInitContainersSidecarsAndApps) {
  // init 300; sidecar 100; init 500 beside the sidecar; apps 200 + 200 beside the sidecar.
  const Pod pod = PodWith("u1", {{ContainerKind::kInit, {Gpu(300, 10)}},
                                 {ContainerKind::kSidecar, {Gpu(100, 10)}},
                                 {ContainerKind::kInit, {Gpu(500, 10)}},
                                 {ContainerKind::kApp, {Gpu(200, 30)}},
                                 {ContainerKind::kApp, {Gpu(200, 30)}}});
  const Verdict verdict = Admit(Ledger(), pod);
  ASSERT_EQ(verdict.kind, Verdict::Kind::kAdmitted);
  EXPECT_EQ(PeakOf(verdict.plan, kGpu1), (GpuLoad{600, 70}));
}

TEST(AdmissionTest, InitContainerBeforeASidecarDoesNotCountBesideIt) {
  const Pod pod = PodWith("u1", {{ContainerKind::kInit, {Gpu(1000, 100)}},
                                 {ContainerKind::kSidecar, {Gpu(500, 50)}},
                                 {ContainerKind::kApp, {Gpu(500, 50)}}});
  EXPECT_EQ(Admit(Ledger(), pod).kind, Verdict::Kind::kAdmitted);
}

TEST(AdmissionTest, ContainerBetweenOthersWithoutGpuGetsNone) {
  const Pod pod = PodWith("u1", {{ContainerKind::kApp, {Gpu(500, 50)}},
                                 {ContainerKind::kApp, {}},
                                 {ContainerKind::kApp, {Gpu(200, 20)}}});
  EXPECT_EQ(Admit(Ledger(), pod, "c0").kind, Verdict::Kind::kAdmitted);
  EXPECT_EQ(Admit(Ledger(), pod, "c1").kind, Verdict::Kind::kNoGpu);
  EXPECT_EQ(Admit(Ledger(), pod, "c2").kind, Verdict::Kind::kAdmitted);
  EXPECT_EQ(Admit(Ledger(), pod, "debugger-x").kind, Verdict::Kind::kNoGpu);
}

TEST(AdmissionTest, RefusesGrantsOfOthers) {
  Pod pod = AppPod("u1", 100, 10);
  pod.annotations = AppPod("u2", 100, 10).annotations;
  EXPECT_EQ(Admit(Ledger(), pod).kind, Verdict::Kind::kRefused);
  EXPECT_EQ(Admit(Ledger(), pod).error.code, ErrorCode::kPermissionDenied);
  NodeView elsewhere = OneCard();
  elsewhere.node = "n2";
  const Pod good = AppPod("u1", 100, 10);
  EXPECT_EQ(AdmitContainer(elsewhere, Ledger(), &good, {"u1", "c0"}).error.code,
            ErrorCode::kPermissionDenied);
}

TEST(AdmissionTest, RefusesAGrantThatIsDamagedOrDoesNotFitTheSpec) {
  Pod pod = AppPod("u1", 100, 10);
  pod.containers[0].gpus = 2;
  EXPECT_EQ(Admit(Ledger(), pod).kind, Verdict::Kind::kRefused);
  pod.annotations[names::kAnnotationGrant] = "{";
  EXPECT_EQ(Admit(Ledger(), pod).error.code, ErrorCode::kInvalidArgument);
}

TEST(AdmissionTest, PodWithoutAGrantWaitsAndTheReasonSaysWhatToDo) {
  Pod pod = AppPod("u1", 100, 10);
  pod.annotations.clear();
  const Verdict verdict = Admit(Ledger(), pod);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kWait);
  EXPECT_EQ(verdict.error.code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(verdict.error.message, HasSubstr("krux-scheduler"));
}

TEST(AdmissionTest, UnhealthyOrMissingCardIsWaitedFor) {
  NodeView view = OneCard();
  view.cards[0].trouble = "it fell off the bus";
  const Pod pod = AppPod("u1", 100, 10);
  EXPECT_THAT(AdmitContainer(view, Ledger(), &pod, {"u1", "c0"}).error.message,
              HasSubstr("fell off the bus"));
  view.cards.clear();
  EXPECT_EQ(AdmitContainer(view, Ledger(), &pod, {"u1", "c0"}).kind, Verdict::Kind::kWait);
}

TEST(AdmissionTest, GrantMayNotChangeUnderALivingContainer) {
  Ledger ledger;
  ASSERT_TRUE(Enter(ledger, AppPod("u1", 100, 10), "c0", "id1"));
  EXPECT_EQ(Admit(ledger, AppPod("u1", 900, 10)).kind, Verdict::Kind::kRefused);
  ledger.ClearInstance("id1");
  EXPECT_EQ(Admit(ledger, AppPod("u1", 900, 10)).kind, Verdict::Kind::kAdmitted);
}

TEST(AdmissionTest, KnownContainersRestartFromTheLedgerWhileThePodsAreUnknown) {
  Ledger ledger;
  ASSERT_TRUE(Enter(ledger, AppPod("u1", 100, 10), "c0", "id1"));
  NodeView view = OneCard();
  EXPECT_EQ(AdmitContainer(view, ledger, nullptr, {"u1", "c0"}).kind, Verdict::Kind::kWait);
  view.pods_known = false;
  EXPECT_EQ(AdmitContainer(view, ledger, nullptr, {"u1", "c0"}).kind, Verdict::Kind::kAdmitted);
  EXPECT_EQ(AdmitContainer(view, ledger, nullptr, {"u2", "c0"}).kind, Verdict::Kind::kWait);
  EXPECT_EQ(AdmitContainer(view, ledger, nullptr, {"u1", "other"}).kind, Verdict::Kind::kNoGpu);
}

TEST(AdmissionTest, PodsThatAreEndingGetNothingNew) {
  Pod pod = AppPod("u1", 100, 10);
  pod.deleting = true;
  EXPECT_EQ(Admit(Ledger(), pod).kind, Verdict::Kind::kRefused);
  pod.deleting = false;
  pod.finished = true;
  EXPECT_EQ(Admit(Ledger(), pod).kind, Verdict::Kind::kRefused);
}

TEST(AdmissionTest, GateAsksForTheRuntimeClassFirst) {
  Pod pod = AppPod("u1", 100, 10);
  EXPECT_EQ(AdmitAtGate(OneCard(), Ledger(), pod, "c0").kind, Verdict::Kind::kAdmitted);
  pod.runtime_class.clear();
  const Verdict verdict = AdmitAtGate(OneCard(), Ledger(), pod, "c0");
  EXPECT_EQ(verdict.kind, Verdict::Kind::kRefused);
  EXPECT_THAT(verdict.error.message, HasSubstr("add runtimeClassName: krux"));
}

TEST(AdmissionTest, PrivateContainersGetTheCardThatFitsBest) {
  NodeView view{"n1", {{kGpu1, 1000, ""}, {kGpu2, 500, ""}}, false};
  auto plan = PlanPrivate(view, Ledger(), "run-1", {Gpu(400, 10, "")});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->containers[0].gpus[0].uuid, kGpu2);
  plan = PlanPrivate(view, Ledger(), "run-1", {Gpu(400, 10, ""), Gpu(400, 10, "")});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->containers[0].gpus[1].uuid, kGpu1);
  const auto too_many =
      PlanPrivate(view, Ledger(), "run-1", {Gpu(1, 1, ""), Gpu(1, 1, ""), Gpu(1, 1, "")});
  EXPECT_EQ(too_many.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(PlanPrivate(view, Ledger(), "run-1", {Gpu(1001, 1, "")}).error().message,
              HasSubstr("1000 of 1000 MiB"));
}

// Whatever order pods come, start, restart and end in: the sum of what living containers were
// promised never passes the card.
TEST(AdmissionTest, NeverOverCommitsUnderRandomInterleavings) {
  for (uint32_t seed = 1; seed <= 25; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
    std::vector<Pod> pods;
    for (int i = 0; i < 8; ++i) {
      pods.push_back(PodWith("u" + std::to_string(i),
                             {{ContainerKind::kInit, {Gpu(1 + pick(500), pick(50))}},
                              {ContainerKind::kApp, {Gpu(1 + pick(500), pick(50))}},
                              {ContainerKind::kApp, {Gpu(1 + pick(300), pick(50))}}}));
    }
    Ledger ledger;
    int ids = 0;
    for (int step = 0; step < 100; ++step) {
      const Pod& pod = pods[pick(8)];
      const std::string name = "c" + std::to_string(pick(3));
      if (pick(3) != 0) {
        Enter(ledger, pod, name, "id" + std::to_string(ids++));
      } else if (const LedgerContainer* c = ledger.FindContainer({pod.uid, name})) {
        ledger.ClearInstance(std::string(c->id));
        if (!ledger.FindPod(pod.uid)->AnyAlive() && pick(2) == 0) ledger.ErasePod(pod.uid);
      }
      GpuLoad apps;
      for (const auto& [uid, entry] : ledger.pods()) {
        for (const LedgerContainer& c : entry.containers) {
          if (c.kind != ContainerKind::kApp || c.id.empty()) continue;
          apps.memory_mib += c.gpus[0].memory_mib;
          apps.cores += c.gpus[0].cores;
        }
      }
      ASSERT_LE(apps.memory_mib, 1000u) << "seed " << seed;
      ASSERT_LE(apps.cores, 100u) << "seed " << seed;
      ASSERT_LE(ledger.LoadOf(kGpu1).memory_mib, 1000u) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace krux::agent
