#include "sim/testing/tenants.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "sim/cuda/engine.h"

namespace krux::sim {
namespace {

// One program and the engine that stands for its process.
class Tenant {
 public:
  Tenant(SharedState* node, uint32_t seat, const TenantProgram& program, const HostTimes& host)
      : program_(program),
        host_(host),
        engine_(std::make_unique<Engine>(node, 0, seat, Engine::Threads::kNone)),
        wake_(&node->card(0).seats[seat].wake),
        next_beat_(node->Now() + program.start),
        host_time_(next_beat_) {
    if (program_.launch == 0) program_.launch = host.launch;
  }

  // Does what is due at `now`; returns when there is more to do.
  Nanos Step(Nanos now) {
    if (now < next_ && wake_->load() == seen_) return next_;
    engine_->Step(&seen_);
    NoticeEnd();
    while (!is_waiting_ && host_time_ <= now) {
      Act();
      NoticeEnd();
    }
    const Nanos engine_next = engine_->Step(&seen_);
    next_ = is_waiting_ ? engine_next : std::min(engine_next, host_time_);
    return next_;
  }

  void StartCounting() { waits_.clear(); }
  TenantResult Result(Nanos length) const {
    const double seconds = static_cast<double>(length) / static_cast<double>(kSecond);
    return {static_cast<double>(waits_.size()) / seconds, waits_};
  }

 private:
  struct Round {
    MarkPtr end;
    Nanos started;
  };

  // The next step of the host program, at host_time_.
  void Act() {
    if (launched_ == program_.kernels) {
      EndRound();
      return;
    }
    if (launched_ == 0 && !is_called_) round_start_ = host_time_;
    if (!is_called_) {  // the call takes time, then the work is there
      is_called_ = true;
      host_time_ += program_.launch;
      return;
    }
    is_called_ = false;
    Operation operation;
    operation.cost = program_.kernel;
    operation.on_card = true;
    engine_->Submit(&queue_, std::move(operation));
    ++launched_;
  }

  void EndRound() {
    Round round{std::make_shared<Mark>(engine_.get()), round_start_};
    round.end->awaited.fetch_add(1);
    Operation record;
    record.mark = round.end;
    engine_->Submit(&queue_, std::move(record));
    rounds_.push_back(std::move(round));
    launched_ = 0;
    is_waiting_ = rounds_.size() > static_cast<size_t>(program_.rounds_in_flight);
  }

  void NoticeEnd() {
    if (!is_waiting_ || !engine_->IsDone(*rounds_.front().end)) return;
    is_waiting_ = false;
    const Nanos noticed = std::max(host_time_, rounds_.front().end->time + host_.notice);
    waits_.push_back(noticed - rounds_.front().started);
    rounds_.pop_front();
    host_time_ = noticed + program_.host_work;
    if (program_.period == 0) return;
    next_beat_ = std::max(next_beat_ + program_.period, host_time_);
    host_time_ = next_beat_;
  }

  TenantProgram program_;
  HostTimes host_;
  std::unique_ptr<Engine> engine_;
  std::atomic<uint32_t>* wake_;  // changes when another tenant changes what we can expect
  uint32_t seen_ = 0;
  Nanos next_ = 0;  // when there is more to do
  Queue queue_;
  Nanos next_beat_;
  Nanos host_time_;  // the host is busy until then
  Nanos round_start_ = 0;
  int launched_ = 0;
  bool is_called_ = false;   // in the middle of a launch
  bool is_waiting_ = false;  // for the oldest of rounds_
  std::deque<Round> rounds_;
  std::vector<Nanos> waits_;
};

void RunUntil(SharedState* node, std::vector<Tenant>* tenants, Nanos end) {
  while (node->Now() < end) {
    Nanos next = end;
    // Twice: what one does now can change what another has to do now.
    for (int pass = 0; pass < 2; ++pass) {
      next = end;
      for (Tenant& tenant : *tenants) next = std::min(next, tenant.Step(node->Now()));
    }
    node->SetVirtualTime(std::max(next, node->Now() + 1));
  }
}

}  // namespace

Nanos TenantResult::Percentile(double percent) const {
  if (waits.empty()) return 0;
  std::vector<Nanos> sorted = waits;
  std::sort(sorted.begin(), sorted.end());
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(last * percent / 100 + 0.5)];
}

krux::Result<std::vector<TenantResult>> RunTenants(SharedState* node, const HostTimes& host,
                                                   const std::vector<TenantProgram>& programs,
                                                   Nanos length) {
  KRUX_RETURN_IF_ERROR(node->AdvanceVirtualTime(0));
  std::vector<Tenant> tenants;
  tenants.reserve(programs.size());  // engines hold pointers to their queues
  for (const TenantProgram& program : programs) {
    KRUX_ASSIGN_OR_RETURN(const uint32_t seat, node->ClaimSeat(0));
    tenants.emplace_back(node, seat, program, host);
  }
  const Nanos start = node->Now() + length / 10;
  RunUntil(node, &tenants, start);
  for (Tenant& tenant : tenants) tenant.StartCounting();
  RunUntil(node, &tenants, start + length);
  std::vector<TenantResult> results;
  for (const Tenant& tenant : tenants) results.push_back(tenant.Result(length));
  return results;
}

}  // namespace krux::sim
