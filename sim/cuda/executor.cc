// The threads of an Engine: the executor, which sleeps until the next observable end, and the one
// that runs host functions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/cuda/engine.h"
#include "sim/cuda/threads.h"

namespace krux::sim {
namespace {

constexpr Nanos kNever = std::numeric_limits<Nanos>::max();
constexpr Nanos kPollEvery = 50 * kMicrosecond;    // heads that wait for a value in memory
constexpr Nanos kLookForDead = 10 * kMillisecond;  // while others share the card
constexpr Nanos kLongestSleep = 30 * kSecond;      // while on the card: the share's clock wraps

bool IsObservable(const Operation& operation) {
  return operation.action != nullptr || (operation.mark && operation.mark->awaited.load() > 0);
}

// A head that waits for something whose coming wakes nobody: memory, or another card's work.
bool NeedsPolling(const Queue& queue) { return queue.head == Queue::Head::kWaiting; }

Nanos After(Nanos start, double duration) {
  return duration > 1e17 ? kNever : start + static_cast<Nanos>(std::ceil(duration));
}

}  // namespace

// One queue alone: sums up to the first end that anybody can see, so that a long run of kernels
// costs one wake-up.
Nanos Engine::PlanSingle(const Queue& queue, double rate) const {
  double due = queue.remaining < 0 ? 0 : queue.remaining;
  due = queue.operations.front().on_card ? due / rate : due;
  bool is_first = true;
  for (const Operation& operation : queue.operations) {
    if (!is_first) {
      if (operation.after) break;
      const auto cost = static_cast<double>(operation.cost);
      due += operation.on_card ? cost / rate : cost;
    }
    is_first = false;
    if (IsObservable(operation)) break;
  }
  return After(clock_, due);
}

Nanos Engine::PlanMany(double rate) const {
  double due = INFINITY;
  const double head_rate = rate / Width();
  for (const Queue* queue : active_) {
    if (queue->head != Queue::Head::kRunning) continue;
    const double remaining = std::max(queue->remaining, 0.0);
    due = std::min(due, queue->operations.front().on_card ? remaining / head_rate : remaining);
  }
  return After(clock_, due);
}

Nanos Engine::Plan(Nanos now) const {
  if (active_.empty()) return kNever;
  const CardShare::Sample sample = share_.Read(now);
  const double rate = sample.rate > 0 ? sample.rate : 1;
  const bool is_single = active_.size() == 1 && active_[0]->head == Queue::Head::kRunning;
  Nanos plan = is_single ? PlanSingle(*active_[0], rate) : PlanMany(rate);
  if (std::any_of(active_.begin(), active_.end(), [](Queue* q) { return NeedsPolling(*q); })) {
    plan = std::min(plan, now + kPollEvery);
  }
  if (is_on_card_) {
    const bool is_shared = (sample.busy & (sample.busy - 1)) != 0;
    plan = std::min(plan, now + (is_shared ? kLookForDead : kLongestSleep));
  }
  return plan;
}

void Engine::Execute() {
  std::atomic<uint32_t>& wake = state_->card(card_).seats[seat_].wake;
  Nanos last_look = 0;
  Nanos last_refresh = 0;
  while (true) {
    std::unique_lock<std::mutex> lock(mutex_);
    planned_ = 0;
    const Nanos now = MonotonicNow();
    if (Queue* queue = frozen_ != nullptr ? frozen_ : Advance(now)) {
      Action* action = queue->operations.front().action.get();
      lock.unlock();
      action->Run();
      lock.lock();
      frozen_ = nullptr;
      Complete(queue);
      continue;
    }
    const uint64_t busy = share_.Read(now).busy;
    const bool looks_for_dead =
        is_on_card_ && (busy & (busy - 1)) != 0 && now - last_look >= kLookForDead;
    if (is_on_card_ && now - last_refresh > kLongestSleep / 3) {
      share_.Refresh(now);
      last_refresh = now;
    }
    const uint32_t seen = wake.load();
    planned_ = Plan(now);
    const Nanos until = planned_;
    lock.unlock();
    if (looks_for_dead) {
      last_look = now;
      if (state_->ReleaseDead(card_) > 0) continue;
    }
    SleepOnSeat(&wake, seen, until);
  }
}

void Engine::HandOver(Queue* queue) {
  if (!has_host_thread_) {
    has_host_thread_ = true;
    StartThread("krux-sim-host", [this] { RunHostFunctions(); });
  }
  host_functions_.push_back(queue);
  host_work_.notify_one();
}

void Engine::RunHostFunctions() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    host_work_.wait(lock, [this] { return !host_functions_.empty(); });
    Queue* queue = host_functions_.front();
    host_functions_.pop_front();
    Action* action = queue->operations.front().action.get();
    lock.unlock();
    action->Run();
    lock.lock();
    if (frozen_ == nullptr) Advance(MonotonicNow());
    Complete(queue);
    Kick();
  }
}

}  // namespace krux::sim
