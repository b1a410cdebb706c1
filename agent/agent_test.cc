// The whole agent in one process: real sockets, pages, leases and ledger; faked cards and pods.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <future>

#include "agent/agent_world.h"
#include "common/file.h"

namespace krux::agent {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const json& MainOf(const json& status, size_t pod = 0) {
  return status["pods"][pod]["containers"][0];
}
uint64_t UsedOf(const json& status) { return MainOf(status)["gpus"][0]["usedBytes"]; }

TEST(AgentTest, CreateGivesFolderAndPagesAndAKilledProcessIsCredited) {
  LimiterProcess limiter;
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  const auto answer = world.Create("id1", "u1");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->granted);
  EXPECT_EQ(answer->limiter_path, "/opt/libkrux.so");
  EXPECT_THAT(answer->driver_files, testing::ElementsAre("/drivers/libcuda.so.1"));
  EXPECT_THAT(answer->device_nodes, testing::ElementsAre("/dev/nvidia0"));
  ASSERT_EQ(answer->mounts.size(), 1u);
  EXPECT_EQ(answer->mounts[0].host, world.FolderOf("id1"));
  EXPECT_TRUE(answer->mounts[0].read_only);

  LimiterProcess::Order order;
  order.charge = 64 * kMiB;
  order.pending = 1;  // it dies in the middle of a charge
  const auto report = limiter.Do(world.FolderOf("id1"), order);
  ASSERT_TRUE(report.welcome);
  EXPECT_EQ(UsedOf(world.AgentStatus()), 64 * kMiB);
  limiter.Kill();
  EXPECT_TRUE(world.Until([](const json& s) { return MainOf(s)["processes"].empty(); }));
  EXPECT_EQ(UsedOf(world.AgentStatus()), 0u);
}

TEST(AgentTest, DeadProcessStaysChargedWhileTheDriverListsIt) {
  LimiterProcess limiter;
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  ASSERT_TRUE(world.Create("id1", "u1"));
  {
    const std::lock_guard<std::mutex> lock(world.nvml->mutex);
    world.nvml->processes[limiter.pid()] = 64 * kMiB;
  }
  LimiterProcess::Order order;
  order.charge = 64 * kMiB;
  ASSERT_TRUE(limiter.Do(world.FolderOf("id1"), order).welcome);
  const int before = world.nvml->asked;
  limiter.Kill();
  ASSERT_TRUE(world.Until([&](const json&) { return world.nvml->asked > before + 2; }));
  EXPECT_EQ(UsedOf(world.AgentStatus()), 64 * kMiB);
  {
    const std::lock_guard<std::mutex> lock(world.nvml->mutex);
    world.nvml->processes.clear();
  }
  EXPECT_TRUE(world.Until([](const json& s) { return UsedOf(s) == 0; }));
}

TEST(AgentTest, ContextIsSettledAndItsSizeLearned) {
  LimiterProcess limiter;
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 900));
  ASSERT_TRUE(world.Create("id1", "u1"));
  {
    const std::lock_guard<std::mutex> lock(world.nvml->mutex);
    world.nvml->processes[limiter.pid()] = 300 * kMiB;
  }
  LimiterProcess::Order order;
  order.charge = 520 * kMiB;
  order.context_made = true;
  ASSERT_TRUE(limiter.Do(world.FolderOf("id1"), order).welcome);
  EXPECT_TRUE(world.Until([](const json& s) { return UsedOf(s) == 300 * kMiB; }));
  EXPECT_EQ(world.AgentStatus()["gpus"][0]["contextMiB"], 300);
}

TEST(AgentTest, MemoryThatNoCallShowedIsAddedToTheAccount) {
  LimiterProcess limiter;
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 900));
  ASSERT_TRUE(world.Create("id1", "u1"));
  world.List(limiter.pid(), 300 * kMiB);
  LimiterProcess::Order order;
  order.charge = 200 * kMiB;  // and says nothing
  ASSERT_TRUE(limiter.Do(world.FolderOf("id1"), order).welcome);
  EXPECT_TRUE(world.Until([](const json& s) { return UsedOf(s) == 300 * kMiB; }));
}

TEST(AgentTest, ContainerThatHoldsMoreThanItsLimitIsEnded) {
  LimiterProcess hostile, neighbour;
  AgentWorld world;
  world.over_limit = OverLimitPolicy::kEnd;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  world.Tell(AgentWorld::MakePod("u2", 400));
  ASSERT_TRUE(world.Create("id1", "u1"));
  ASSERT_TRUE(world.Create("id2", "u2"));
  // Its account says nothing: it has zeroed it, or asked the kernel driver itself.
  ASSERT_TRUE(hostile.Do(world.FolderOf("id1")).welcome);
  ASSERT_TRUE(neighbour.Do(world.FolderOf("id2")).welcome);
  world.List(neighbour.pid(), 400 * kMiB + OverLimit::kForgiven);
  world.List(hostile.pid(), 500 * kMiB);
  EXPECT_TRUE(hostile.WasKilled());
  EXPECT_EQ(kill(neighbour.pid(), 0), 0);
}

TEST(AgentTest, ContainerOverItsLimitLivesWherePolicySaysSo) {
  LimiterProcess limiter;
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  ASSERT_TRUE(world.Create("id1", "u1"));
  ASSERT_TRUE(limiter.Do(world.FolderOf("id1")).welcome);
  world.List(limiter.pid(), 800 * kMiB);
  const int before = world.nvml->asked;
  ASSERT_TRUE(world.Until([&](const json&) { return world.nvml->asked > before + 5; }));
  EXPECT_EQ(kill(limiter.pid(), 0), 0);
}

TEST(AgentTest, CreateWaitsForThePodThatTheKubeletTellsLate) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  auto create = std::async(std::launch::async, [&] { return world.Create("id1", "u1"); });
  ASSERT_TRUE(world.Until([](const json& s) { return s["waiting"] == 1; }));
  world.Tell(AgentWorld::MakePod("u1", 400));
  EXPECT_TRUE(create.get()->granted);
}

TEST(AgentTest, CreateEndsWithTheReasonWhenPatienceIsOver) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent(/*patience=*/20 * kMillisecond));
  Pod pod = AgentWorld::MakePod("u1", 400);
  pod.annotations.clear();
  world.Tell(pod);
  const auto answer = world.Create("id1", "u1");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_FALSE(std::filesystem::exists(world.FolderOf("id1")));
}

TEST(AgentTest, ContainerThatAsksForNothingGetsNothing) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  Pod pod = AgentWorld::MakePod("u1", 400);
  pod.annotations.clear();
  pod.containers[0] = {"main", ContainerKind::kApp, 0, false};
  world.Tell(pod);
  const auto answer = world.Create("id1", "u1");
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->granted);
  EXPECT_TRUE(answer->driver_files.empty());
}

TEST(AgentTest, GateHoldsTheRoomAndLetsTheNextInWhenItIsFree) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 600));
  world.Tell(AgentWorld::MakePod("u2", 600));
  world.TellAll({"u1", "u2"});
  ASSERT_TRUE(world.Gate("u1"));
  ASSERT_TRUE(world.Create("id1", "u1"));
  auto gate = std::async(std::launch::async, [&] { return world.Gate("u2"); });
  ASSERT_TRUE(world.Until([](const json& s) { return s["waiting"] == 1; }));
  Pod ending = AgentWorld::MakePod("u1", 600);
  ending.deleting = true;
  world.Tell(ending);
  EXPECT_EQ(world.AgentStatus()["waiting"], 1) << "the container of the deleted pod still runs";
  ASSERT_TRUE(world.Delete("id1"));
  EXPECT_TRUE(gate.get());
  EXPECT_FALSE(std::filesystem::exists(world.FolderOf("id1")));
  EXPECT_EQ(world.AgentStatus()["gpus"][0]["grantedMiB"], 600);
}

TEST(AgentTest, GateSaysWhoHoldsTheRoomAndWhatIsMissing) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent(/*patience=*/20 * kMillisecond));
  world.Tell(AgentWorld::MakePod("u1", 600));
  world.Tell(AgentWorld::MakePod("u2", 600));
  ASSERT_TRUE(world.Gate("u1"));
  const Status full = world.Gate("u2");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(full.error().message, HasSubstr("default/pod-u1"));
  Pod classless = AgentWorld::MakePod("u3", 100);
  classless.runtime_class.clear();
  world.Tell(classless);
  EXPECT_THAT(world.Gate("u3").error().message, HasSubstr("runtimeClassName: krux"));
  EXPECT_TRUE(world.AskEmpty(api::GateRequest{{"not-ours"}})) << "the runtime's question decides";
}

TEST(AgentTest, RestartedAgentTakesUpContainersProcessesAndLeases) {
  LimiterProcess limiter;
  AgentWorld world;
  FakePlugin plugin(world.folder);
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  ASSERT_TRUE(world.Create("id1", "u1"));
  LimiterProcess::Order order;
  order.charge = 64 * kMiB;
  const auto before = limiter.Do(world.FolderOf("id1"), order);
  ASSERT_TRUE(world.Until([&](const json&) { return plugin.stored == 1; }));
  struct stat folder_before{};
  ASSERT_EQ(stat((world.FolderOf("id1") + "/limits").c_str(), &folder_before), 0);
  world.StopAgent();

  ASSERT_TRUE(world.StartAgent());
  const json status = world.AgentStatus();
  EXPECT_EQ(UsedOf(status), 64 * kMiB);
  EXPECT_EQ(MainOf(status)["processes"][0]["pid"], limiter.pid());
  struct stat folder_after{};
  ASSERT_EQ(stat((world.FolderOf("id1") + "/limits").c_str(), &folder_after), 0);
  EXPECT_EQ(folder_before.st_ino, folder_after.st_ino) << "a container has this file mounted";
  order.resume_slot = before.slot;
  order.charge = 0;
  const auto after = limiter.Do(world.FolderOf("id1"), order);
  EXPECT_TRUE(after.welcome);
  EXPECT_EQ(after.slot, before.slot);
  EXPECT_EQ(after.account_changed, 0u);
  limiter.Kill();
  EXPECT_TRUE(world.Until([](const json& s) { return UsedOf(s) == 0; }));
}

TEST(AgentTest, RestartedAgentWithoutTheAccountTakesTheDriversFiguresAndTellsTheLimiterOnce) {
  LimiterProcess limiter;
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  ASSERT_TRUE(world.Create("id1", "u1"));
  LimiterProcess::Order order;
  const auto before = limiter.Do(world.FolderOf("id1"), order);
  world.StopAgent();
  {
    const std::lock_guard<std::mutex> lock(world.nvml->mutex);
    world.nvml->processes[limiter.pid()] = 128 * kMiB;
  }
  ASSERT_TRUE(world.StartAgent());
  EXPECT_TRUE(world.Until([](const json& s) { return UsedOf(s) == 128 * kMiB; }));
  order.resume_slot = before.slot;
  order.charge = 64 * kMiB;
  EXPECT_EQ(limiter.Do(world.FolderOf("id1"), order).account_changed, 1u);
  EXPECT_EQ(UsedOf(world.AgentStatus()), 64 * kMiB) << "the limiter knows better than the driver";
  order.charge = 0;
  EXPECT_EQ(limiter.Do(world.FolderOf("id1"), order).account_changed, 0u);
}

TEST(AgentTest, ProcessThatEndedWhileTheAgentWasAwayIsCredited) {
  LimiterProcess limiter;
  AgentWorld world;
  FakePlugin plugin(world.folder);
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  ASSERT_TRUE(world.Create("id1", "u1"));
  LimiterProcess::Order order;
  order.charge = 64 * kMiB;
  ASSERT_TRUE(limiter.Do(world.FolderOf("id1"), order).welcome);
  ASSERT_TRUE(world.Until([&](const json&) { return plugin.stored == 1; }));
  world.StopAgent();
  limiter.Kill();
  ASSERT_TRUE(world.StartAgent());
  EXPECT_TRUE(world.Until([](const json& s) { return UsedOf(s) == 0; }));
}

TEST(AgentTest, RestartWithoutTheKubeletStillStartsWhatTheLedgerKnows) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  ASSERT_TRUE(world.Create("id1", "u1"));
  world.StopAgent();
  ASSERT_TRUE(world.StartAgent());
  const auto answer = world.Create("id2", "u1");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_TRUE(answer->granted);
  EXPECT_FALSE(std::filesystem::exists(world.FolderOf("id1"))) << "the new instance replaced it";
  EXPECT_EQ(world.AgentStatus()["gpus"][0]["grantedMiB"], 400);
}

TEST(AgentTest, ContainerWhoseEndNobodyToldIsFreedWhenNoProcessOfItIsLeft) {
  AgentWorld world;
  world.empty_container = "id1";
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  world.Tell(AgentWorld::MakePod("u2", 400));
  world.TellAll({"u1", "u2"});
  ASSERT_TRUE(world.Create("id1", "u1"));
  ASSERT_TRUE(world.Create("id2", "u2"));
  world.TellGone("u1");
  world.TellGone("u2");
  EXPECT_TRUE(world.Until([](const json& s) { return s["gpus"][0]["grantedMiB"] == 400; }));
  EXPECT_EQ(MainOf(world.AgentStatus())["id"], "id2") << "its pod is gone, its process is not";
}

TEST(AgentTest, TroubleOfThePodSourceFreesNothing) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  world.TellAll({"u1"});
  ASSERT_TRUE(world.Gate("u1"));
  world.pods->Send({PodEvent::Kind::kTrouble, {}, {}, {}, "the kubelet restarts"});
  EXPECT_EQ(world.AgentStatus()["podsKnown"], false);
  EXPECT_EQ(world.AgentStatus()["gpus"][0]["grantedMiB"], 400);
  world.TellAll({});
  EXPECT_EQ(world.AgentStatus()["gpus"][0]["grantedMiB"], 0);
}

TEST(AgentTest, CardInTroubleKeepsTheGateClosed) {
  AgentWorld world;
  world.nvml->trouble = "it fell off the bus";
  ASSERT_TRUE(world.StartAgent(/*patience=*/20 * kMillisecond));
  world.Tell(AgentWorld::MakePod("u1", 400));
  const Status closed = world.Gate("u1");
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(closed.error().message, HasSubstr("fell off the bus"));
}

TEST(AgentTest, DamagedLedgerKeepsTheAgentFromStarting) {
  AgentWorld world;
  ASSERT_TRUE(WriteFileDurably(world.folder + "/ledger", "rubbish", 0600));
  const Status started = world.StartAgent();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kDataLoss);
}

TEST(AgentTest, SecondAgentOnTheSameFolderIsRefused) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  AgentWorld other;
  const std::string own = other.folder;
  other.folder = world.folder;
  EXPECT_EQ(other.StartAgent().error().code, ErrorCode::kAlreadyExists);
  other.folder = own;
}

TEST(AgentTest, ProcessOfAnotherContainerIsRefused) {
  LimiterProcess limiter;
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  ASSERT_TRUE(world.Create("id1", "u1"));
  world.stranger = limiter.pid();
  const auto report = limiter.Do(world.FolderOf("id1"));
  EXPECT_FALSE(report.welcome);
  EXPECT_THAT(report.refused, HasSubstr("not in the container"));
}

TEST(AgentTest, ContainerIdsThatAreNoFolderNamesAreRefused) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  world.Tell(AgentWorld::MakePod("u1", 400));
  for (const char* id : {"../x", ".", "a/b"}) {
    EXPECT_EQ(world.Create(id, "u1").error().code, ErrorCode::kInvalidArgument) << id;
  }
}

TEST(AgentTest, PrivateContainerLivesAsLongAsItsConnectionAndProcesses) {
  LimiterProcess limiter;
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent(0, /*with_pods=*/false));
  auto connection = ConnectUnix(world.AgentSocket());
  ASSERT_TRUE(connection);
  api::RunRequest request;
  request.gpus.push_back({"", 400, 30, ComputePolicy::kFixed, Priority::kNormal});
  ASSERT_TRUE(SendMessage(connection->get(), api::RequestToJson(request)));
  const auto message = ReceiveMessage(connection->get(), 10'000);
  ASSERT_TRUE(message);
  const auto answer = api::ParseRunAnswer(message->bytes);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->gpus[0].uuid, kTestGpu);
  ASSERT_TRUE(limiter.Do(answer->folder).welcome);
  connection->Reset();
  EXPECT_EQ(world.AgentStatus()["pods"].size(), 1u) << "its process still runs";
  limiter.Kill();
  // The local agent ends by itself when its last client has gone.
  world.thread.join();
  EXPECT_FALSE(std::filesystem::exists(answer->folder));
}

TEST(AgentTest, SharesOfALivingContainerCanBeSet) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent(0, /*with_pods=*/false));
  auto connection = ConnectUnix(world.AgentSocket());
  ASSERT_TRUE(connection);
  api::RunRequest request;
  request.gpus.push_back({"", 400, 30, ComputePolicy::kFixed, Priority::kNormal});
  ASSERT_TRUE(SendMessage(connection->get(), api::RequestToJson(request)));
  ASSERT_TRUE(ReceiveMessage(connection->get(), 10'000));
  const auto gpu = [&] { return world.AgentStatus()["pods"][0]["containers"][0]["gpus"][0]; };
  const std::string id = world.AgentStatus()["pods"][0]["containers"][0]["id"];
  const auto set = [&](const api::SetRequest& wanted) {
    const auto answer = api::Ask(world.AgentSocket(), wanted, 10'000);
    return answer ? api::ParseEmptyAnswer(*answer) : Status(answer.error());
  };
  ASSERT_TRUE(set({id, 45, ""}));
  EXPECT_EQ(gpu()["cores"], 45);
  EXPECT_EQ(gpu()["policy"], "fixed");
  ASSERT_TRUE(set({id, 60, "balance"}));
  EXPECT_EQ(gpu()["cores"], 60);
  EXPECT_EQ(gpu()["policy"], "balance");
  EXPECT_EQ(set({"nobody", 10, ""}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(set({id, 0, "fixed"}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(set({id, 10, "none"}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(gpu()["cores"], 60) << "what is refused changes nothing";
  connection->Reset();
  world.thread.join();
}

TEST(AgentTest, HostileTextOnTheSocketIsRefusedAndChangesNothing) {
  AgentWorld world;
  ASSERT_TRUE(world.StartAgent());
  for (const std::string& text :
       {std::string("{}"), std::string("\xff\xfe"), std::string(60'000, '['),
        std::string(R"({"v":1,"op":"create"})"), std::string(R"({"v":2,"op":"status"})")}) {
    auto connection = ConnectUnix(world.AgentSocket());
    ASSERT_TRUE(connection);
    ASSERT_TRUE(SendMessage(connection->get(), text));
    const auto answer = ReceiveMessage(connection->get(), 10'000);
    ASSERT_TRUE(answer);
    EXPECT_FALSE(api::ParseEmptyAnswer(answer->bytes));
  }
  EXPECT_TRUE(world.AgentStatus()["pods"].empty());
}

}  // namespace
}  // namespace krux::agent
