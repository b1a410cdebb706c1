// For tests: an agent with faked cards and pods, real sockets, pages and lease service, all in a
// temporary folder, on a loop of its own thread; and a limiter in a process of its own.
#ifndef KRUX_AGENT_AGENT_WORLD_H_
#define KRUX_AGENT_AGENT_WORLD_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "agent/agent.h"
#include "common/units.h"
#include "common/unix_socket.h"
#include "protocol/agent_api.h"
#include "protocol/fd_store.h"
#include "protocol/names.h"

namespace krux::agent {

inline constexpr char kTestGpu[] = "GPU-00000000-0000-0000-0000-000000000001";

// One card of 1000 MiB whose process list the test sets.
class FakeNvml : public gpu::Nvml {
 public:
  struct State {
    std::mutex mutex;
    std::map<pid_t, uint64_t> processes;  // guarded by mutex
    std::string trouble;                  // guarded by mutex
    std::atomic<int> asked = 0;
  };
  explicit FakeNvml(std::shared_ptr<State> state) : state_(std::move(state)) {}

  Result<std::string> DriverVersion() const override { return std::string("1"); }
  Result<gpu::DeviceList> ListDevices() const override {
    gpu::DeviceList list;
    list.devices.push_back({kTestGpu, "Fake", 1000 * kMiB, 0, ""});
    return list;
  }
  Result<gpu::MemoryInfo> Memory(const std::string&) const override { return gpu::MemoryInfo{}; }
  Result<std::map<pid_t, uint64_t>> ProcessMemory(const std::string&) const override {
    ++state_->asked;
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->processes;
  }
  Status CheckHealth(const std::string&) const override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->trouble.empty()) return Ok();
    return Error{ErrorCode::kUnavailable, state_->trouble};
  }

 private:
  std::shared_ptr<State> state_;
};

class FakePods : public PodSource {
 public:
  struct State {
    std::mutex mutex;
    Sink sink;  // guarded by mutex
    void Send(PodEvent event) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (sink) sink(std::move(event));
    }
  };
  explicit FakePods(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~FakePods() override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->sink = nullptr;
  }
  void Start(Sink sink) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->sink = std::move(sink);
  }

 private:
  std::shared_ptr<State> state_;
};

// Slot "krux-<uid>-<container>" is that container's.
class FakeOwners : public DeviceOwners {
 public:
  Result<DeviceOwner> Find(const std::vector<std::string>& ids) override {
    const std::string id = ids.empty() ? "" : ids[0];
    const size_t dash = id.rfind('-');
    if (id.rfind("krux-", 0) != 0 || dash <= 5) return Error{ErrorCode::kNotFound, "nobody's"};
    return DeviceOwner{id.substr(5, dash - 5), "", "", id.substr(dash + 1)};
  }
};

// The plugin's part: keeps descriptors on plugin.sock.
class FakePlugin {
 public:
  explicit FakePlugin(const std::string& run_folder) {
    auto listener = ListenUnix(run_folder + "/" + names::kPluginSocket, 0600);
    EXPECT_TRUE(listener);
    listener_ = std::move(*listener);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      fd_store::Store store;
      while (!stop.stop_requested()) {
        pollfd waiter{listener_.get(), POLLIN, 0};
        if (poll(&waiter, 1, 20) != 1) continue;
        const UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        auto message = ReceiveMessage(peer.get(), 1000);
        if (!message) continue;
        const auto answer = store.Handle(std::move(*message));
        (void)SendMessage(peer.get(), answer.json,
                          answer.fd >= 0 ? std::vector<int>{answer.fd} : std::vector<int>{});
        stored = store.size();
      }
    });
  }
  std::atomic<size_t> stored = 0;

 private:
  UniqueFd listener_;
  std::jthread thread_;
};

// A process that acts as a limiter when told to. Made before any thread is.
class LimiterProcess {
 public:
  struct Order {
    char path[200] = {};  // connect here and say hello
    uint32_t resume_slot = wire::Hello::kNoSlot;
    uint64_t charge = 0;   // then charge so much as a context on GPU 0
    uint64_t pending = 0;  // and leave this pending
    bool context_made = false;
  };
  struct Report {
    bool welcome = false;
    uint32_t slot = 0;
    uint32_t account_changed = 0;
    char refused[248] = {};
  };

  LimiterProcess() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair_), 0);
    pid_ = fork();
    if (pid_ != 0) {
      close(pair_[1]);
      return;
    }
    close(pair_[0]);
    Order order;
    while (read(pair_[1], &order, sizeof order) == sizeof order) {
      const Report report = Obey(order);
      if (write(pair_[1], &report, sizeof report) < 0) break;
    }
    _exit(0);
  }
  ~LimiterProcess() {
    Kill();
    close(pair_[0]);
  }
  pid_t pid() const { return pid_; }
  Report Do(const std::string& folder) { return Do(folder, Order()); }
  Report Do(const std::string& folder, Order order) {
    const std::string path = folder + "/" + names::kLimiterSocket;
    std::snprintf(order.path, sizeof order.path, "%s", path.c_str());
    Report report;
    EXPECT_EQ(write(pair_[0], &order, sizeof order), static_cast<ssize_t>(sizeof order));
    EXPECT_EQ(read(pair_[0], &report, sizeof report), static_cast<ssize_t>(sizeof report));
    return report;
  }
  // Whether somebody has ended it with SIGKILL; waits until it has ended.
  bool WasKilled() {
    int status = 0;
    const bool killed =
        waitpid(pid_, &status, 0) == pid_ && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    pid_ = -1;
    return killed;
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  static Report Obey(const Order& order) {
    Report report;
    auto socket = ConnectUnix(order.path);
    if (!socket) return report;
    wire::Hello hello;
    hello.pid = getpid();
    hello.resume_slot = order.resume_slot;
    if (!SendMessage(socket->get(), {reinterpret_cast<const char*>(&hello), sizeof hello})) {
      return report;
    }
    auto answer = ReceiveMessage(socket->get(), 10'000);
    if (!answer || answer->bytes.empty()) return report;
    if (answer->bytes.size() != sizeof(wire::Welcome)) {
      wire::Refused refused;
      std::memcpy(&refused, answer->bytes.data(), std::min(answer->bytes.size(), sizeof refused));
      std::memcpy(report.refused, refused.reason, sizeof report.refused);
      return report;
    }
    wire::Welcome welcome;
    std::memcpy(&welcome, answer->bytes.data(), sizeof welcome);
    report = {true, welcome.slot, welcome.account_changed, {}};
    Charge(answer->fds.at(0).get(), welcome.slot, order);
    const wire::Event event{wire::Type::kEvent, wire::EventKind::kContextMade, 0, 0};
    if (order.context_made) {
      (void)SendMessage(socket->get(), {reinterpret_cast<const char*>(&event), sizeof event});
    }
    socket->Release();  // it talks as long as the process lives
    return report;
  }
  static void Charge(int account, uint32_t slot, const Order& order) {
    void* address =
        mmap(nullptr, sizeof(AccountPage), PROT_READ | PROT_WRITE, MAP_SHARED, account, 0);
    auto* page = static_cast<AccountPage*>(address);
    ProcessSlot::PerGpu& mine = page->processes[slot].gpus[0];
    page->gpus[0].used_bytes.fetch_add(order.charge);
    mine.charged_bytes.fetch_add(order.charge);
    mine.context_bytes.fetch_add(order.charge);
    mine.pending_bytes.store(order.pending);
  }

  int pair_[2] = {-1, -1};
  pid_t pid_ = -1;
};

class AgentWorld {
 public:
  AgentWorld() { EXPECT_NE(mkdtemp(folder.data()), nullptr); }
  ~AgentWorld() {
    StopAgent();
    std::filesystem::remove_all(folder);
  }

  // Runs one agent, with patience as short as the test wants it.
  Status StartAgent(Nanos patience = 60 * kSecond, bool with_pods = true) {
    KRUX_ASSIGN_OR_RETURN(loop, EventLoop::Make());
    Agent::Options options;
    options.node = "n1";
    options.run_folder = folder;
    options.ledger_path = with_pods ? folder + "/ledger" : "";
    options.limiter_path = "/opt/libkrux.so";
    options.exit_when_idle = !with_pods;
    options.create_patience = patience;
    options.gate_patience = patience;
    options.idle_time = 20 * kMillisecond;
    options.sweep_period = 10 * kMillisecond;
    options.look_period = 20 * kMillisecond;
    options.over_limit = over_limit;
    Agent::Parts parts;
    parts.loop = loop.get();
    KRUX_ASSIGN_OR_RETURN(parts.leases, LeaseService::Start(Arbiter::Options{}));
    parts.probe = [state = nvml]() -> Result<CardWatch::Found> {
      CardWatch::Found found;
      found.driver.kind = gpu::DriverKind::kNvidia;
      found.driver.files = {"/drivers/libcuda.so.1"};
      found.nvml = std::make_shared<FakeNvml>(state);
      return found;
    };
    if (with_pods) {
      parts.pods = std::make_unique<FakePods>(pods);
      parts.owners = std::make_unique<FakeOwners>();
    }
    parts.check_peer = [this](const ucred& peer, const ContainerSpec& spec) -> Status {
      if (spec.is_private) return CheckPeer(peer, spec);
      if (peer.pid != stranger) return Ok();
      return Error{ErrorCode::kPermissionDenied, "not in the container"};
    };
    parts.find_alive =
        [this](const std::map<std::string, std::string>& asked) -> Result<std::set<std::string>> {
      std::set<std::string> alive;
      for (const auto& [id, path] : asked) {
        if (id != empty_container) alive.insert(id);
      }
      return alive;
    };
    KRUX_ASSIGN_OR_RETURN(agent, Agent::Start(std::move(options), std::move(parts)));
    thread = std::thread([this] { loop->Run(); });
    return Ok();
  }
  void StopAgent() {
    if (loop == nullptr) return;
    if (thread.joinable()) {
      loop->Stop();
      thread.join();
    }
    agent.reset();
    loop.reset();
  }

  std::string AgentSocket() const { return folder + "/" + names::kAgentSocket; }
  std::string FolderOf(const std::string& id) const { return folder + "/containers/" + id; }

  Result<api::CreateAnswer> Create(const std::string& id, const std::string& uid,
                                   const std::string& container = "main") {
    KRUX_ASSIGN_OR_RETURN(
        const std::string text,
        api::Ask(AgentSocket(),
                 api::CreateRequest{id, uid, "default", "pod-" + uid, container, "/kubepods/" + id},
                 60'000));
    return api::ParseCreateAnswer(text);
  }
  Status Delete(const std::string& id) { return AskEmpty(api::DeleteRequest{id}); }
  Status Gate(const std::string& uid, const std::string& container = "main") {
    return AskEmpty(api::GateRequest{{"krux-" + uid + "-" + container}});
  }
  Status AskEmpty(const api::Request& request) {
    KRUX_ASSIGN_OR_RETURN(const std::string text, api::Ask(AgentSocket(), request, 60'000));
    return api::ParseEmptyAnswer(text);
  }
  nlohmann::json AgentStatus() {
    const auto text = api::Ask(AgentSocket(), api::StatusRequest{}, 60'000);
    return text ? nlohmann::json::parse(*text) : nlohmann::json();
  }
  // Asks for the status until it is as wanted; false when that never comes.
  bool Until(const std::function<bool(const nlohmann::json&)>& wanted) {
    const Nanos end = MonotonicNow() + 30 * kSecond;
    while (MonotonicNow() < end) {
      if (wanted(AgentStatus())) return true;
      poll(nullptr, 0, 2);
    }
    return false;
  }

  static Pod MakePod(const std::string& uid, uint64_t memory_mib, uint32_t cores = 30) {
    Pod pod;
    pod.uid = uid;
    pod.name_space = "default";
    pod.name = "pod-" + uid;
    pod.runtime_class = "krux";
    pod.containers.push_back({"main", ContainerKind::kApp, 1, true});
    PodGrant grant{uid, "n1", 1, {}};
    grant.containers["main"] = {
        {kTestGpu, memory_mib, cores, ComputePolicy::kBalance, Priority::kNormal}};
    pod.annotations[names::kAnnotationGrant] = GrantToJson(grant);
    return pod;
  }
  void Tell(const Pod& pod) { pods->Send({PodEvent::Kind::kChanged, pod, {}, {}, {}}); }
  void List(pid_t pid, uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(nvml->mutex);
    nvml->processes[pid] = bytes;
  }
  void TellGone(const std::string& uid) { pods->Send({PodEvent::Kind::kGone, {}, uid, {}, {}}); }
  void TellAll(std::set<std::string> uids) {
    pods->Send({PodEvent::Kind::kSynced, {}, {}, std::move(uids), {}});
  }

  std::string folder = "/tmp/krux-agent-XXXXXX";
  std::shared_ptr<FakeNvml::State> nvml = std::make_shared<FakeNvml::State>();
  std::shared_ptr<FakePods::State> pods = std::make_shared<FakePods::State>();
  std::atomic<pid_t> stranger = 0;
  OverLimitPolicy over_limit = OverLimitPolicy::kReport;  // set before StartAgent
  std::string empty_container;  // has no process left; set before StartAgent
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<Agent> agent;
  std::thread thread;
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_AGENT_WORLD_H_
