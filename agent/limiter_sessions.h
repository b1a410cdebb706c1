// The limiters of one container: their connections, their processes, their slots on the account
// page. Speaks protocol/limiter_messages.h; everything that comes in is a tenant's and is checked.
//
// A process is what a pidfd stands for; a connection is only how it talks. A process that ends is
// credited when the driver no longer lists it, for a child that it forked can still hold its
// memory. The list of processes is kept in a small file as well, so that a restarted agent watches
// the same processes without waiting for them to connect again.
//
// Thread rule: the loop's thread only.
#ifndef KRUX_AGENT_LIMITER_SESSIONS_H_
#define KRUX_AGENT_LIMITER_SESSIONS_H_

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/event_loop.h"
#include "agent/lease_service.h"
#include "agent/over_limit.h"
#include "agent/pages.h"
#include "agent/processes.h"
#include "protocol/limiter_messages.h"

namespace krux::agent {

class LimiterSessions {
 public:
  // What the driver says of one GPU: bytes by host pid.
  using Memory = Result<std::map<pid_t, uint64_t>>;
  // One entry a GPU of the container, in its order.
  using MemoryAnswer = std::function<void(std::vector<Memory>)>;

  struct Hooks {
    // May this process speak for the container?
    std::function<Status(const ucred& peer)> check_peer;
    // Asks the driver from another thread and calls back on the loop. An answer that is at most
    // `max_age` old will do.
    std::function<void(Nanos max_age, MemoryAnswer)> ask_driver;
    // Whether a process that the driver lists is the container's; for those without a limiter.
    std::function<bool(pid_t)> is_mine = [](pid_t) { return false; };
    // The true size of a context on the container's GPU was seen.
    std::function<void(uint32_t gpu, uint64_t bytes)> context_learned;
    // About once a second, after the look at the driver's figures.
    std::function<void()> looked = [] {};
    // The last process has gone; called from the loop, not from within this object.
    std::function<void()> all_gone;
  };

  struct Options {
    std::string tenant;        // the container's id: its name at the lease service
    std::string socket_path;   // in the container's folder
    std::string process_file;  // not in the container's folder
    uint32_t gpu_count = 0;
    bool account_is_new = false;         // the account of a container that was running is lost
    std::vector<uint64_t> limits_bytes;  // one a GPU
    OverLimitPolicy over_limit = OverLimitPolicy::kReport;
    Nanos look_period = kSecond;
  };

  struct ProcessView {
    uint32_t slot = 0;
    pid_t pid = 0;
    bool connected = false;
    bool ended = false;  // and the driver still lists it
  };

  // Listens, and takes up the processes of the process file.
  static Result<std::unique_ptr<LimiterSessions>> Open(EventLoop& loop, LeaseService& leases,
                                                       Account& account, Options options,
                                                       Hooks hooks);
  // The caller has removed the tenant from the lease service by then, or ended the service.
  ~LimiterSessions();
  LimiterSessions(const LimiterSessions&) = delete;
  LimiterSessions& operator=(const LimiterSessions&) = delete;

  bool AnyProcess() const { return !processes_.empty(); }
  std::vector<ProcessView> Snapshot() const;

  // One message of a connection, as it came; for the fuzz target too. False: the connection is to
  // be closed.
  bool HandleMessage(int fd, std::string_view bytes);

 private:
  struct Connection {
    std::shared_ptr<UniqueFd> fd;  // shared with the notice sender of its process
    bool has_slot = false;
    uint32_t slot = 0;
  };
  // A question to the driver counts only for what happened before it was asked.
  static constexpr int kNotAsked = -1;
  struct Process {
    ProcessId id;
    UniqueFd pidfd;
    int connection = -1;
    bool ended = false;
    // Of a container whose account is lost: until the limiter moves its charges to the new one,
    // the driver's figure stands for them.
    bool told_account = true;
    bool is_seeded = false;
    bool ask_driver = true;  // credited only when the driver no longer lists it
    int audits = kNotAsked;  // since it ended
  };
  // What the last audit saw of a context that is to be settled. Only two audits in a row that see
  // the same can tell the context from the rest: a program that allocates moves both figures, and
  // never at the same moment.
  struct Sample {
    int audits = kNotAsked;
    uint64_t charged_when_asked = 0;
    uint64_t charged = UINT64_MAX;
    uint64_t driver = UINT64_MAX;
  };
  struct Settle {
    uint32_t slot;
    uint32_t gpu;
    bool operator<(const Settle& o) const { return slot != o.slot ? slot < o.slot : gpu < o.gpu; }
  };

  LimiterSessions(EventLoop& loop, LeaseService& leases, Account& account, Options options,
                  Hooks hooks);
  Status Listen();
  void OnAccept();
  void OnReadable(int fd);
  void CloseConnection(int fd);

  bool OnHello(int fd, const wire::Hello& hello);
  Result<uint32_t> Identify(int fd, const wire::Hello& hello, bool* account_changed);
  Result<uint32_t> Claim(const ProcessId& id, UniqueFd pidfd, int32_t container_pid);
  Status Attach(int fd, uint32_t slot, bool account_changed);
  void Refuse(int fd, const Error& error);
  bool OnEvent(int fd, const wire::Event& event);

  void OnProcessEnd(uint32_t slot);
  void Supersede(const ProcessId& id);
  void Release(uint32_t slot);

  void ReadProcessFile();
  void WriteProcessFile();
  void CreditStrangers();

  // The regular look (limiter_look.cc).
  void LookSoon();
  void OnLook(const std::vector<Memory>& memory);
  uint64_t ListedOn(const std::map<pid_t, uint64_t>& figures, std::vector<pid_t>* pids);
  void RaiseListed(uint32_t gpu, const std::map<pid_t, uint64_t>& figures);
  void RaiseTo(uint32_t slot, uint32_t gpu, uint64_t driver_bytes);
  void Judge(uint32_t gpu, uint64_t listed, const std::vector<pid_t>& pids);

  void MarkAsked();
  void AuditSoon(Nanos delay);
  void Audit();
  void OnAudit(const std::vector<Memory>& memory);
  void AuditSeeds(const std::vector<Memory>& memory);
  void AuditEnded(const std::vector<Memory>& memory);
  void AuditContexts(const std::vector<Memory>& memory);
  bool AuditContext(const Settle& settle, Sample& sample, const Memory& figures);
  bool IsStable(const Settle& settle, uint64_t driver_bytes, Sample& sample);

  EventLoop& loop_;
  LeaseService& leases_;
  Account& account_;
  Options options_;
  Hooks hooks_;
  UniqueFd listener_;
  std::map<int, Connection> connections_;
  std::map<uint32_t, Process> processes_;  // by slot
  std::map<Settle, Sample> settles_;
  Nanos last_audit_ = 0;
  bool audit_running_ = false;
  bool audit_timer_set_ = false;
  EventLoop::TimerId audit_timer_{};
  Nanos audit_due_ = 0;
  bool look_timer_set_ = false;
  EventLoop::TimerId look_timer_{};
  OverLimit over_limit_;
  std::set<pid_t> strangers_;      // listed by the driver and without a limiter: said once
  std::map<Settle, Sample> seen_;  // by the last look
  // What answers of other threads hold weakly: gone when this object is.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_LIMITER_SESSIONS_H_
