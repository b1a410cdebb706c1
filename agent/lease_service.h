// GPU-time leases: one Arbiter a GPU, bound to the limits pages (lease words, futex), to the
// account pages (who still has work) and to time. The agent's core calls it; it has a thread of
// its own that handles deadlines and sleeps otherwise.
//
//   grant    lease_end_tsc, then lease_word = (epoch + 1, held), then futex wake of all
//   end      lease_word = (epoch + 1, not held), futex wake, Notice kLeaseEnded to each process;
//            the next tenant is let in when no live slot's active_epoch is the old epoch: looked at
//            on each message, on each process that leaves, and every few milliseconds. The page is
//            the tenant's, so it is believed no longer than the grace.
//   windows  disjoint windows on the TSC for the time when the agent is gone
//
// It writes the lease and window fields of GpuLimits and LimitsPage::tsc_per_second, nothing else.
//
// Thread rule: thread-safe; every call is short, never blocks on a tenant, and what it changed is
// in force when it returns. A NoticeSender is called with the service's lock held, from any
// thread: it must not block, must not call the service, and must not take a lock that is held
// while the service is called (a non-blocking send on the process's socket is right).
#ifndef KRUX_AGENT_LEASE_SERVICE_H_
#define KRUX_AGENT_LEASE_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/arbiter.h"
#include "common/result.h"
#include "protocol/limiter_messages.h"
#include "protocol/pages.h"

namespace krux::agent {

class LeaseService {
 public:
  using NoticeSender = std::function<void(const wire::Notice&)>;

  // One GPU of a tenant (a tenant is a container). The pages stay mapped until RemoveTenant has
  // returned.
  struct TenantGpu {
    std::string gpu_uuid;   // tenants with the same one share that card
    uint32_t page_gpu = 0;  // its index in both pages
    LimitsPage* limits = nullptr;
    const AccountPage* account = nullptr;
    Shares shares;
  };

  // For people and tests.
  struct TenantView {
    std::string tenant;
    std::string gpu_uuid;
    uint32_t page_gpu = 0;
    uint32_t processes = 0;
    Arbiter::View lease;
    bool together = false;  // the card's tenants run at the same time now
  };

  // Takes about 20 ms: it measures the TSC.
  static Result<std::unique_ptr<LeaseService>> Start(const Arbiter::Options& options);
  // Ends the thread and all leases; limiters go on with their windows.
  virtual ~LeaseService() = default;

  virtual uint64_t tsc_per_second() const = 0;

  // kAlreadyExists for a (tenant, page_gpu) that is there; kInvalidArgument for shares or an index
  // that cannot be. A page that an earlier agent left is taken over: its lease is ended first, the
  // epoch goes on.
  virtual Status AddTenant(const std::string& tenant, const TenantGpu& gpu) = 0;
  // All GPUs of the tenant. Unknown names are ignored. Nothing of it is touched afterwards.
  virtual void RemoveTenant(const std::string& tenant) = 0;
  // kNotFound for what was not added.
  virtual Status SetShares(const std::string& tenant, uint32_t page_gpu, const Shares& shares) = 0;

  // A limiter has connected and owns `slot` of the account page: call it before Welcome is sent.
  // Calling it again for a slot replaces the sender.
  virtual Status ProcessJoined(const std::string& tenant, uint32_t slot, NoticeSender sender) = 0;
  // The process is really gone (pidfd), or has exec'ed. Its sender is not called any more when
  // this returns. A connection that merely broke is no end: its work may still run.
  virtual void ProcessLeft(const std::string& tenant, uint32_t slot) = 0;
  // kWant, kDrained and kIdle; other kinds are not for this service and refused. Messages with an
  // index or slot that the tenant does not have: kInvalidArgument, nothing changed.
  virtual Status OnEvent(const std::string& tenant, uint32_t slot, const wire::Event& event) = 0;

  virtual std::vector<TenantView> Snapshot() = 0;
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_LEASE_SERVICE_H_
