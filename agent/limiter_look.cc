// The part of LimiterSessions that looks at the driver's figures about once a second, whatever the
// tenants say: memory that no call showed is added to the account, and a container that holds more
// than its limit is found and, by policy, ended.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "agent/limiter_sessions.h"
#include "agent/processes.h"
#include "common/log.h"

namespace krux::agent {
namespace {

constexpr size_t kMostStrangers = 1024;  // remembered, so that each is said once

// Ends a process that was the container's a moment ago. The pidfd makes sure that the pid is not
// given to another one between the check and the signal.
bool EndProcess(pid_t pid, const std::function<bool()>& is_still_mine) {
  const auto pidfd = OpenPidfd(pid);
  if (!pidfd || !is_still_mine()) return false;
  return syscall(SYS_pidfd_send_signal, pidfd->get(), SIGKILL, nullptr, 0) == 0;
}

}  // namespace

void LimiterSessions::LookSoon() {
  if (look_timer_set_) return;
  look_timer_set_ = true;
  look_timer_ = loop_.After(options_.look_period, [this] {
    look_timer_set_ = false;
    hooks_.ask_driver(options_.look_period / 2,
                      [this, alive = std::weak_ptr<bool>(alive_)](std::vector<Memory> memory) {
                        if (alive.expired()) return;
                        LookSoon();
                        OnLook(memory);
                        hooks_.looked();
                      });
  });
}

void LimiterSessions::OnLook(const std::vector<Memory>& memory) {
  if (memory.size() != options_.gpu_count) return;
  for (uint32_t gpu = 0; gpu < options_.gpu_count; ++gpu) {
    if (!memory[gpu]) continue;
    RaiseListed(gpu, *memory[gpu]);
    std::vector<pid_t> pids;
    const uint64_t listed = ListedOn(*memory[gpu], &pids);
    Judge(gpu, listed, pids);
  }
}

// The sum over the container's processes, with a limiter or without; *pids are theirs.
uint64_t LimiterSessions::ListedOn(const std::map<pid_t, uint64_t>& figures,
                                   std::vector<pid_t>* pids) {
  std::map<pid_t, uint32_t> slots;
  for (const auto& [slot, process] : processes_) slots.emplace(process.id.pid, slot);
  uint64_t total = 0;
  for (const auto& [pid, bytes] : figures) {
    const auto known = slots.find(pid);
    if (known == slots.end() && !hooks_.is_mine(pid)) continue;
    total += std::min(bytes, UINT64_MAX - total);
    pids->push_back(pid);
    if (known == slots.end() && strangers_.size() < kMostStrangers &&
        strangers_.insert(pid).second) {
      KRUX_LOG_WARN("process without a limiter holds GPU memory container={} pid={} mib={}",
                    options_.tenant, pid, bytes / kMiB);
    }
  }
  return total;
}

void LimiterSessions::RaiseListed(uint32_t gpu, const std::map<pid_t, uint64_t>& figures) {
  for (const auto& [slot, process] : processes_) {
    const auto listed = figures.find(process.id.pid);
    if (listed != figures.end() && !process.ended) RaiseTo(slot, gpu, listed->second);
  }
}

// Two looks with the same figures: what the driver has more is real and not in the account.
void LimiterSessions::RaiseTo(uint32_t slot, uint32_t gpu, uint64_t driver_bytes) {
  Sample& sample = seen_[{slot, gpu}];
  const uint64_t charged = account_.Charged(slot, gpu);
  const bool stable = sample.charged == charged && sample.driver == driver_bytes;
  sample.charged = charged;
  sample.driver = driver_bytes;
  if (!stable || driver_bytes <= account_.ChargedAndListed(slot, gpu)) return;
  (void)account_.SettleContext(slot, gpu, driver_bytes, Account::Direction::kUp);
}

void LimiterSessions::Judge(uint32_t gpu, uint64_t listed, const std::vector<pid_t>& pids) {
  if (gpu >= options_.limits_bytes.size()) return;
  const uint64_t limit = options_.limits_bytes[gpu];
  const OverLimit::Verdict verdict = over_limit_.Look(gpu, listed, limit);
  if (verdict == OverLimit::Verdict::kFine) return;
  if (verdict == OverLimit::Verdict::kOver) {
    KRUX_LOG_WARN("container over its GPU memory limit container={} gpu={} mib={} limit_mib={}",
                  options_.tenant, gpu, listed / kMiB, limit / kMiB);
  }
  if (verdict != OverLimit::Verdict::kStill || options_.over_limit != OverLimitPolicy::kEnd) return;
  for (const pid_t pid : pids) {
    const auto is_still_mine = [this, pid] {
      return hooks_.is_mine(pid) ||
             std::any_of(processes_.begin(), processes_.end(), [pid](const auto& entry) {
               const auto start = StartTimeOf(pid);
               return entry.second.id.pid == pid && start && *start == entry.second.id.start;
             });
    };
    const bool ended = EndProcess(pid, is_still_mine);
    KRUX_LOG_ERROR(
        "process ended: its container holds more than its limit container={} pid={} "
        "ended={}",
        options_.tenant, pid, ended);
  }
}

}  // namespace krux::agent
