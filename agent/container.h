// A living container: its folder with the limits page and the limiter socket, its account, its
// limiters, its place in the lease service. Lives from create (or re-adoption) to the container's
// end; the ledger says that it exists, this makes it true.
//
// Thread rule: the loop's thread only.
#ifndef KRUX_AGENT_CONTAINER_H_
#define KRUX_AGENT_CONTAINER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/cards.h"
#include "agent/event_loop.h"
#include "agent/lease_service.h"
#include "agent/limiter_sessions.h"
#include "agent/pages.h"
#include "common/result.h"
#include "protocol/grant.h"

namespace krux::agent {

struct ContainerSpec {
  std::string id;
  std::string cgroups_path;
  std::vector<GpuGrant> gpus;
  bool is_private = false;  // `krux run`: there is no cgroup to check, the user decides
  uint32_t owner = 0;       // private: the user who asked
};

// Whether a process may speak for a container; the default is CheckPeer below.
using PeerCheck = std::function<Status(const ucred& peer, const ContainerSpec& spec)>;
Status CheckPeer(const ucred& peer, const ContainerSpec& spec);

// "[A-Za-z0-9_.-]", 1 to 128 bytes, no dot first: it becomes a folder's name.
Status CheckContainerId(const std::string& id);

class Container {
 public:
  struct Env {
    EventLoop& loop;
    LeaseService& leases;
    CardWatch& cards;
    std::string containers_folder;  // a folder for each container
    std::string processes_folder;   // a file for each container
    PeerCheck check_peer;
    OverLimitPolicy over_limit = OverLimitPolicy::kReport;
    Nanos look_period = kSecond;
  };
  struct Hooks {
    std::function<void(const std::string& uuid, uint64_t bytes)> context_learned;
    std::function<void(const std::string& id)> all_gone;  // its last process has ended
  };

  // `kept_account` is what the descriptor store gave back; invalid for a new container, or when
  // it is lost: then a new account is made, and the limiters are told to move to it.
  static Result<std::unique_ptr<Container>> Open(const Env& env, ContainerSpec spec,
                                                 UniqueFd kept_account, bool is_adopted,
                                                 Hooks hooks);
  // Ends the leases and the connections; the files stay, for a next agent.
  ~Container();
  // The lease service ends before this object does (the agent ends): its windows stay in the pages
  // and the limiters go on with them.
  void LeaveLeases() { in_leases_ = false; }
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  // Removes a container's folder and process file. For one that is gone.
  static void RemoveFiles(const Env& env, const std::string& id);

  const ContainerSpec& spec() const { return spec_; }
  const std::string& folder() const { return folder_; }
  const Account& account() const { return *account_; }
  bool AnyProcess() const { return sessions_->AnyProcess(); }
  std::vector<LimiterSessions::ProcessView> Processes() const { return sessions_->Snapshot(); }
  // Other cores and policy, in force when it returns. REQUIRES: the spec's GPUs in their order.
  Status SetShares(const std::vector<GpuGrant>& gpus);
  void SetContextMib(const std::string& uuid, uint32_t mib);

 private:
  Container(const Env& env, ContainerSpec spec);
  Status OpenPages(UniqueFd kept_account, bool* account_is_new);
  Status JoinLeases();
  void PublishUsage();
  Status OpenSessions(bool account_is_new, Hooks hooks);

  Env env_;
  ContainerSpec spec_;
  std::string folder_;
  bool in_leases_ = true;
  std::unique_ptr<LimitsFile> limits_;
  std::unique_ptr<Account> account_;
  std::unique_ptr<LimiterSessions> sessions_;
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_CONTAINER_H_
