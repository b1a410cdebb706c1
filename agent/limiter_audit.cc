// The part of LimiterSessions that compares with the driver: contexts are settled to their true
// size, and ended processes are credited once the driver has let go of their memory.
#include <algorithm>
#include <climits>

#include "agent/limiter_sessions.h"
#include "common/log.h"

namespace krux::agent {
namespace {

constexpr Nanos kLeastPause = 5 * kMillisecond;
constexpr Nanos kFirstRetry = 10 * kMillisecond;
constexpr Nanos kSlowRetry =
    60 * kMillisecond;               // memory that a fork child holds: see docs/memory.md
constexpr int kQuickTries = 50;      // half a second
constexpr int kDriverTries = 170;    // with a driver that gives no answer: about 10 seconds
constexpr int kContextTries = 3000;  // a program that allocates all the time: some minutes

}  // namespace

void LimiterSessions::AuditSoon(Nanos delay) {
  if (audit_running_) return;  // what came meanwhile is asked about after it
  const Nanos now = MonotonicNow();
  // A container that asks all the time gets an answer often enough, not all of the driver's time.
  delay = std::max(delay, last_audit_ + kLeastPause - now);
  if (audit_timer_set_) {
    if (audit_due_ <= now + delay) return;
    loop_.Cancel(audit_timer_);
  }
  audit_timer_set_ = true;
  audit_due_ = now + delay;
  audit_timer_ = loop_.After(delay, [this] {
    audit_timer_set_ = false;
    Audit();
  });
}

void LimiterSessions::MarkAsked() {
  for (auto& [settle, sample] : settles_) {
    sample.audits = std::max(sample.audits, 0);
    sample.charged_when_asked = account_.Charged(settle.slot, settle.gpu);
  }
  for (auto& [slot, process] : processes_) {
    if (process.ended) process.audits = std::max(process.audits, 0);
  }
}

void LimiterSessions::Audit() {
  audit_running_ = true;
  MarkAsked();
  hooks_.ask_driver(0, [this, alive = std::weak_ptr<bool>(alive_)](std::vector<Memory> memory) {
    if (alive.expired()) return;
    audit_running_ = false;
    last_audit_ = MonotonicNow();
    OnAudit(memory);
  });
}

void LimiterSessions::OnAudit(const std::vector<Memory>& memory) {
  if (memory.size() != options_.gpu_count) return;
  AuditSeeds(memory);
  // Memory that one process lets go and another one holds moves between them in one look.
  for (uint32_t gpu = 0; gpu < options_.gpu_count; ++gpu) {
    if (memory[gpu]) RaiseListed(gpu, *memory[gpu]);
  }
  AuditContexts(memory);
  AuditEnded(memory);
}

void LimiterSessions::AuditSeeds(const std::vector<Memory>& memory) {
  for (auto& [slot, process] : processes_) {
    if (process.told_account || process.is_seeded || process.ended) continue;
    process.is_seeded = true;
    for (uint32_t g = 0; g < options_.gpu_count; ++g) {
      if (!memory[g]) continue;
      const auto listed = memory[g]->find(process.id.pid);
      if (listed != memory[g]->end()) account_.SeedSlot(slot, g, listed->second);
    }
  }
}

// True when two audits in a row saw the same figures, and nothing moved while the driver answered.
bool LimiterSessions::IsStable(const Settle& settle, uint64_t driver_bytes, Sample& sample) {
  const uint64_t charged = account_.Charged(settle.slot, settle.gpu);
  const bool stable = charged == sample.charged_when_asked && charged == sample.charged &&
                      driver_bytes == sample.driver;
  sample.charged = charged == sample.charged_when_asked ? charged : UINT64_MAX;
  sample.driver = driver_bytes;
  return stable;
}

// True when the context needs no further audit.
bool LimiterSessions::AuditContext(const Settle& settle, Sample& sample, const Memory& figures) {
  const auto process = processes_.find(settle.slot);
  if (process == processes_.end() || process->second.ended || ++sample.audits > kContextTries) {
    return true;
  }
  if (!figures) return false;
  const auto listed = figures->find(process->second.id.pid);
  if (listed == figures->end() || !IsStable(settle, listed->second, sample)) return false;
  const auto settled = account_.SettleContext(settle.slot, settle.gpu, listed->second);
  if (!settled) return false;
  if (settled->only_context) hooks_.context_learned(settle.gpu, settled->context_bytes);
  return true;
}

void LimiterSessions::AuditContexts(const std::vector<Memory>& memory) {
  for (auto it = settles_.begin(); it != settles_.end();) {
    const bool asked = it->second.audits != kNotAsked;
    const bool done = asked && AuditContext(it->first, it->second, memory[it->first.gpu]);
    it = done ? settles_.erase(it) : std::next(it);
  }
}

void LimiterSessions::AuditEnded(const std::vector<Memory>& memory) {
  const bool answered =
      std::all_of(memory.begin(), memory.end(), [](const Memory& m) { return m.has_value(); });
  std::vector<uint32_t> gone;
  int tries = INT_MAX;  // of the newest question
  bool waiting = !settles_.empty();
  for (const auto& [settle, sample] : settles_) tries = std::min(tries, sample.audits);
  for (auto& [slot, process] : processes_) {
    if (!process.ended) continue;
    if (process.audits == kNotAsked) {
      waiting = true;
      tries = 0;
      continue;
    }
    const bool listed = std::any_of(
        memory.begin(), memory.end(),
        [&, pid = process.id.pid](const Memory& m) { return m.has_value() && m->contains(pid); });
    const bool released =
        !process.ask_driver || (answered ? !listed : process.audits >= kDriverTries);
    if (released && account_.CreditSlot(slot)) {
      gone.push_back(slot);
      continue;
    }
    waiting = true;
    tries = std::min(tries, ++process.audits);
  }
  if (waiting) AuditSoon(tries < kQuickTries ? kFirstRetry : kSlowRetry);
  for (const uint32_t slot : gone) Release(slot);
}

}  // namespace krux::agent
