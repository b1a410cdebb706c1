// The threads of an Engine: the executor, which sleeps until the next observable end, and the one
// that runs host functions.
#include <algorithm>
#include <cmath>

#include "sim/cuda/engine.h"
#include "sim/cuda/threads.h"
#include "sim/state/time.h"

namespace krux::sim {
namespace {

constexpr Nanos kPollEvery = 50 * kMicrosecond;    // heads that wait for a value in memory
constexpr Nanos kLookForDead = 10 * kMillisecond;  // while others share the card
constexpr Nanos kLongestSleep = 30 * kSecond;      // so that a plan looks no further
constexpr Nanos kRefreshAfter = kSecond;           // age of the card's turns

bool IsObservable(const Operation& operation) {
  return operation.action != nullptr || (operation.mark && operation.mark->awaited.load() > 0);
}

// A head that waits for something whose coming wakes nobody: memory, or another card's work.
bool NeedsPolling(const Queue& queue) { return queue.head == Queue::Head::kWaiting; }

}  // namespace

// One queue alone: sums up to the first end that anybody can see, so that a long run of kernels
// costs one wake-up.
Nanos Engine::PlanSingle(const Queue& queue, Nanos horizon) const {
  double service = 0;
  double plain = 0;
  bool is_first = true;
  for (const Operation& operation : queue.operations) {
    if (!is_first && operation.after) break;
    const double cost =
        is_first ? std::max(queue.remaining, 0.0) : static_cast<double>(operation.cost);
    (operation.on_card ? service : plain) += cost;
    is_first = false;
    if (IsObservable(operation)) break;
  }
  Nanos time = clock_;
  if (service > 0) {
    const Nanos level = served_ + static_cast<Nanos>(std::ceil(service));
    time = SeatView(share_, seat_, clock_, served_).WhenServed(level, horizon);
  }
  return time == kNever ? horizon : time + static_cast<Nanos>(std::ceil(plain));
}

Nanos Engine::PlanMany(Nanos horizon) const {
  Nanos due = horizon;
  for (const Queue* queue : active_) {
    if (queue->head != Queue::Head::kRunning || queue->operations.front().on_card) continue;
    due = std::min(due, clock_ + static_cast<Nanos>(std::ceil(std::max(queue->remaining, 0.0))));
  }
  if (!is_on_card_) return due;
  return std::min(due, SeatView(share_, seat_, clock_, served_).WhenServed(NextLevel(), due));
}

Nanos Engine::Plan(Nanos now) const {
  if (active_.empty()) return kNever;
  const Nanos horizon = now + kLongestSleep;
  const bool is_single = active_.size() == 1 && active_[0]->head == Queue::Head::kRunning;
  Nanos plan = is_single ? PlanSingle(*active_[0], horizon) : PlanMany(horizon);
  if (std::any_of(active_.begin(), active_.end(), [](Queue* q) { return NeedsPolling(*q); })) {
    plan = std::min(plan, now + kPollEvery);
  }
  return plan;
}

bool Engine::IsShared() const {
  return is_on_card_ && (share_.ReadBusy() & ~(uint64_t{1} << seat_)) != 0;
}

// While others share the card, now and then: do they live? Also writes the card's turns anew, so
// that nobody has to walk through a long past.
bool Engine::LooksForDead(Nanos now) {
  if (now - last_look_ < kLookForDead) return false;
  last_look_ = now;
  if (now - share_.Read().clock > kRefreshAfter) share_.Refresh(seat_, now);
  return true;
}

// Tells who moves virtual time that nothing of what is due is left.
void Engine::Settle(Nanos now) {
  const bool is_acting = std::any_of(active_.begin(), active_.end(), [](const Queue* queue) {
    return queue->head == Queue::Head::kActing;
  });
  if (!is_acting) {
    state_->card(card_).seats[seat_].settled_ns.store(static_cast<uint64_t>(now));
  }
}

Nanos Engine::Step(uint32_t* seen) {
  std::unique_lock<std::mutex> lock(mutex_);
  planned_ = 0;
  const Nanos now = state_->Now();
  if (Queue* queue = frozen_ != nullptr ? frozen_ : Advance(now)) {
    Action* action = queue->operations.front().action.get();
    lock.unlock();
    action->Run();
    lock.lock();
    frozen_ = nullptr;
    Complete(queue);
    *seen = state_->card(card_).seats[seat_].wake.load();
    return now;
  }
  Settle(now);
  const bool is_shared = IsShared();
  const bool looks_for_dead = is_shared && LooksForDead(now);
  *seen = state_->card(card_).seats[seat_].wake.load();
  planned_ = Plan(now);
  if (is_shared) planned_ = std::min(planned_, now + kLookForDead);
  const Nanos until = planned_;
  lock.unlock();
  return looks_for_dead && state_->ReleaseDead(card_) > 0 ? now : until;
}

void Engine::Execute() {
  std::atomic<uint32_t>& wake = state_->card(card_).seats[seat_].wake;
  while (true) {
    uint32_t seen = 0;
    const Nanos until = Step(&seen);
    // Virtual time comes with a wake; memory that is waited for, and the dead, come without one.
    const bool is_virtual = state_->has_virtual_time();
    if (is_virtual) {
      SleepOnSeat(&wake, seen, until == kNever ? kNever : MonotonicNow() + kLookForDead);
    } else {
      SleepOnSeat(&wake, seen, until);
    }
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
    if (frozen_ == nullptr) Advance(state_->Now());
    Complete(queue);
    Kick();
  }
}

}  // namespace krux::sim
