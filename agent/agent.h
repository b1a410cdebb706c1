// krux-agent's core: the one place that knows the pods, the cards, the ledger and the living
// containers, and answers the runtime, the gate and `krux run`.
//
// A request that can't be granted now waits in a list; whenever a pod, the ledger or a card has
// changed, all waiting requests are tried again, oldest first. There are no polls and no locks:
// everything here runs on the loop, one thing after the other.
//
//   create   AdmitContainer -> ledger on disk -> folder, pages, socket -> answer
//   gate     whose slots? -> AdmitAtGate -> the pod's grant held in the ledger -> answer
//   end      runtime's delete, or no process of it left -> files away -> ledger on disk -> waiters
//
// Thread rule: the loop's thread only; answers of other threads come in through the loop.
#ifndef KRUX_AGENT_AGENT_H_
#define KRUX_AGENT_AGENT_H_

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "agent/admission.h"
#include "agent/cards.h"
#include "agent/container.h"
#include "agent/device_owners.h"
#include "agent/event_loop.h"
#include "agent/lease_service.h"
#include "agent/ledger.h"
#include "agent/pod_source.h"
#include "agent/processes.h"
#include "agent/request_server.h"

namespace krux::agent {

class Agent {
 public:
  struct Options {
    std::string node;
    std::string run_folder;       // agent.sock, plugin.sock, containers/, processes/
    std::string ledger_path;      // empty: nothing outlives this agent (--local)
    std::string limiter_path;     // libkrux.so on the host
    bool exit_when_idle = false;  // --local: ends idle_time after the last client has gone
    Nanos create_patience = 20 * kSecond;
    Nanos gate_patience = 25 * kSecond;
    Nanos idle_time = 2 * kSecond;
    Nanos sweep_period = kSecond;
    Nanos look_period = kSecond;  // at each container's memory, by the driver's figures
    OverLimitPolicy over_limit = OverLimitPolicy::kReport;
    Nanos first_client_time = 10 * kSecond;
  };
  struct Parts {
    EventLoop* loop = nullptr;
    std::unique_ptr<LeaseService> leases;
    CardWatch::Probe probe;
    std::unique_ptr<PodSource> pods;       // nullptr: no pods here (--local)
    std::unique_ptr<DeviceOwners> owners;  // nullptr with no pods
    PeerCheck check_peer = CheckPeer;
    // Of these containers (id -> cgroups path) those with a living process; on another thread.
    std::function<Result<std::set<std::string>>(const std::map<std::string, std::string>&)>
        find_alive = FindAlive;
  };

  // Reads the ledger, takes up the containers that still live, opens agent.sock.
  static Result<std::unique_ptr<Agent>> Start(Options options, Parts parts);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

 private:
  using CallerPtr = std::shared_ptr<Caller>;
  // Answers and says true, or says false: not yet. With `last` it must answer.
  using Attempt = std::function<bool(bool last)>;

  struct Living {
    std::unique_ptr<Container> container;  // nullptr: it could not be taken up; its room is held
    Nanos since = 0;
    int sweeps_without_process = 0;
    bool caller_gone = false;  // private: `krux run` has ended
  };
  struct Waiting {
    CallerPtr caller;
    Attempt attempt;
    EventLoop::TimerId deadline{};
  };

  Agent(Options options, Parts parts);
  Status Open();
  Status TakeRunFolder();

  // agent.cc: requests
  void OnRequest(api::Request request, const CallerPtr& caller);
  void OnCreate(const api::CreateRequest& request, const CallerPtr& caller);
  void OnDelete(const api::DeleteRequest& request, const CallerPtr& caller);
  void OnGate(const api::GateRequest& request, const CallerPtr& caller);
  void OnRun(const api::RunRequest& request, const CallerPtr& caller);
  void OnSet(const api::SetRequest& request, const CallerPtr& caller);
  void OnOwner(const Result<DeviceOwner>& owner, const CallerPtr& caller);
  bool TryCreate(const api::CreateRequest& request, const CallerPtr& caller, bool last);
  bool TryGate(const DeviceOwner& owner, const CallerPtr& caller, bool last);
  void WaitFor(const CallerPtr& caller, Nanos patience, Attempt attempt);
  void TryWaitingSoon();
  void TryWaiting();
  Result<api::CreateAnswer> MakeCreateAnswer(const Container& container) const;
  Result<api::RunAnswer> MakeRunAnswer(const Container& container) const;

  // agent_containers.cc: the life of containers
  Status Commit(Ledger next);
  Status StartContainer(const LedgerPod& plan, const Ledger::Place& place, const std::string& id,
                        const std::string& cgroups_path);
  Status OpenContainer(const LedgerContainer& entry, bool is_private, bool is_adopted);
  void ReleaseContainer(const std::string& id, const std::string& why);
  void FreeFinishedPods();
  bool IsOver(const LedgerPod& pod) const;
  void OnPrivateEnd(const std::string& id);
  void OnContextLearned(const std::string& uuid, uint64_t bytes);
  void AdoptAll();
  void RemoveStrangers();
  void KeepDescriptor(const Container& container);
  void KeepDescriptors();
  void SweepSoon();
  void Sweep();
  void OnSweep(const std::set<std::string>& asked, const std::set<std::string>& alive);

  // agent_pods.cc
  void OnPodEvent(PodEvent event);
  const Pod* FindPod(const std::string& uid) const;
  const Pod* FindOwner(const DeviceOwner& owner) const;
  NodeView View() const;
  void CheckIdle();

  // agent_set.cc
  Status Set(const api::SetRequest& request);
  Result<Ledger> WithShares(const api::SetRequest& request, std::vector<std::string>* ids) const;
  Status CheckRoom(const Ledger& next, const std::string& id) const;

  // agent_status.cc
  std::string StatusJson() const;

  Container::Env ContainerEnv();
  std::string ContainersFolder() const;
  std::string ProcessesFolder() const;
  std::string PluginSocket() const;

  Options options_;
  Parts parts_;
  EventLoop& loop_;
  LeaseService& leases_;
  std::unique_ptr<CardWatch> cards_;
  Ledger ledger_;
  std::map<std::string, Living> living_;  // by container id, as in the ledger
  std::map<std::string, Pod> pods_;       // by uid, as the source tells
  bool pods_known_ = false;
  std::string pods_trouble_;
  std::list<Waiting> waiting_;
  bool try_scheduled_ = false;
  uint64_t private_count_ = 0;
  bool had_client_ = false;
  EventLoop::TimerId idle_timer_{};
  EventLoop::TimerId sweep_timer_{};
  uint64_t sweeps_ = 0;
  UniqueFd lock_;  // one agent a run folder
  std::unique_ptr<RequestServer> server_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<Worker> worker_;  // kubelet calls, /proc walks, the descriptor store
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_AGENT_H_
