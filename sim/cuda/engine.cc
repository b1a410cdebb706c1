#include "sim/cuda/engine.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "sim/cuda/threads.h"

namespace krux::sim {
namespace {

constexpr size_t kQueueDepth = 1024;

bool NeedsCard(const Queue& queue) {
  return queue.head == Queue::Head::kRunning && queue.operations.front().on_card;
}

}  // namespace

Engine::Engine(SharedState* state, uint32_t card, uint32_t seat)
    : state_(state), card_(card), seat_(seat), share_(&state->card(card)) {
  StartThread("krux-sim-card", [this] { Execute(); });
}

void Engine::Submit(Queue* queue, Operation operation) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (queue->operations.size() >= kQueueDepth) {
    ++blocked_submitters_;
    done_.wait_for(lock, std::chrono::milliseconds(1));
    --blocked_submitters_;
    if (frozen_ == nullptr && Advance(MonotonicNow()) != nullptr) Kick();
  }
  const Nanos now = MonotonicNow();
  operation.submitted = now;
  const bool was_empty = queue->operations.empty();
  queue->operations.push_back(std::move(operation));
  if (!was_empty) return;
  // The executor wakes at the end of each queue anyway: only a queue that begins changes its plan.
  if (active_.empty()) clock_ = std::max(clock_, now);
  active_.push_back(queue);
  if (frozen_ == nullptr) Advance(now);
  Kick();
}

MarkPtr Engine::Tail(Queue* queue) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (frozen_ == nullptr && Advance(MonotonicNow()) != nullptr) Kick();
  if (queue->operations.empty()) return nullptr;
  MarkPtr& mark = queue->operations.back().mark;
  if (!mark) mark = std::make_shared<Mark>(this);
  return mark;
}

bool Engine::IsEmpty(Queue* queue) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (frozen_ == nullptr && Advance(MonotonicNow()) != nullptr) Kick();
  return queue->operations.empty();
}

bool Engine::IsDone(const Mark& mark) {
  if (mark.is_done.load()) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (frozen_ == nullptr && Advance(MonotonicNow()) != nullptr) Kick();
  return mark.is_done.load();
}

void Engine::Wait(const MarkPtr& mark) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (frozen_ == nullptr && Advance(MonotonicNow()) != nullptr) Kick();
  if (mark->is_done.load()) return;
  mark->awaited.fetch_add(1);
  // The executor wakes at the end of each queue anyway.
  const bool is_tail = std::any_of(active_.begin(), active_.end(), [&](const Queue* queue) {
    return queue->operations.back().mark == mark;
  });
  if (!is_tail) Kick();
  done_.wait(lock, [&] { return mark->is_done.load(); });
  mark->awaited.fetch_sub(1);
}

void Engine::Drain(Queue* queue) {
  while (const MarkPtr mark = Tail(queue)) Wait(mark);
}

// Accounts for everything until `now`. Stops early, with the clock at that time, when a queue's
// action is due: the executor runs it, then goes on from there, so that what follows starts when it
// was due and not when the executor woke.
Queue* Engine::Advance(Nanos now) {
  while (true) {
    StartHeads();
    UpdateSeat();
    const double speed = SpeedUntil(now);
    const Next next = FindNext(speed, now);
    Progress(next.time, speed);
    if (next.queue == nullptr) return nullptr;
    if (next.is_start) continue;
    if (next.queue->operations.front().action == nullptr) {
      Complete(next.queue);
    } else if (BeginAction(next.queue)) {
      return next.queue;
    }
  }
}

bool Engine::CanStart(Queue& queue) const {
  Operation& operation = queue.operations.front();
  if (operation.submitted > clock_) return false;
  if (operation.after) {
    for (const MarkPtr& mark : *operation.after) {
      if (!mark->is_done.load()) return false;
    }
  }
  return operation.action == nullptr || operation.action->IsReady();
}

void Engine::StartHeads() {
  for (Queue* queue : active_) {
    if (queue->head != Queue::Head::kWaiting || !CanStart(*queue)) continue;
    queue->head = Queue::Head::kRunning;
    queue->remaining = static_cast<double>(queue->operations.front().cost);
  }
}

void Engine::UpdateSeat() {
  const bool needs_card =
      std::any_of(active_.begin(), active_.end(), [](Queue* queue) { return NeedsCard(*queue); });
  if (needs_card == is_on_card_) return;
  is_on_card_ = needs_card;
  if (needs_card) {
    clock_ = std::max(clock_, share_.Join(seat_, clock_));
  } else {
    share_.Leave(seat_, clock_);
    WakeOthers();
  }
  seen_ = share_.Read(clock_);
}

double Engine::SpeedUntil(Nanos now) {
  if (!is_on_card_ || now <= clock_) return 0;
  const CardShare::Sample sample = share_.Read(now);
  return static_cast<double>(CardShare::ServiceBetween(seen_, sample)) /
         static_cast<double>(now - clock_);
}

double Engine::Width() const {
  double width = 0;
  for (const Queue* queue : active_) {
    if (NeedsCard(*queue)) width += static_cast<double>(queue->operations.front().width);
  }
  return std::max(width, 1.0);
}

Engine::Next Engine::FindNext(double speed, Nanos now) const {
  Next next;
  next.time = std::max(now, clock_);
  const double head_speed = speed / Width();
  for (Queue* queue : active_) {
    double duration = INFINITY;
    const Operation& operation = queue->operations.front();
    const bool is_start = queue->head == Queue::Head::kWaiting && operation.submitted > clock_;
    if (is_start) {
      duration = static_cast<double>(operation.submitted - clock_);
    } else if (queue->head == Queue::Head::kRunning) {
      // What is left below a nanosecond is rounding.
      duration = queue->remaining < 1 ? 0
                 : !operation.on_card ? queue->remaining
                 : head_speed > 0     ? queue->remaining / head_speed
                                      : INFINITY;
    }
    if (duration > static_cast<double>(next.time - clock_)) continue;
    next = {queue, clock_ + static_cast<Nanos>(duration), is_start};
  }
  return next;
}

void Engine::Progress(Nanos until, double speed) {
  const auto elapsed = static_cast<double>(until - clock_);
  if (elapsed > 0) {
    const double head_speed = speed / Width();
    for (Queue* queue : active_) {
      if (queue->head != Queue::Head::kRunning) continue;
      queue->remaining -= elapsed * (queue->operations.front().on_card ? head_speed : 1.0);
    }
    seen_.service += static_cast<Nanos>(elapsed * speed);
    clock_ = until;
    AccountBusy(static_cast<Nanos>(elapsed * speed), until);
  }
}

// Utilisation as NVML shows it: the busy share of windows of a fifth of a second.
void Engine::AccountBusy(Nanos service, Nanos now) {
  constexpr Nanos kWindow = 200 * kMillisecond;
  Seat& seat = state_->card(card_).seats[seat_];
  if (service > 0) seat.busy_ns.fetch_add(static_cast<uint64_t>(service));
  const Nanos age = now - static_cast<Nanos>(seat.window_start_ns.load());
  if (age < kWindow) return;
  const uint64_t busy = seat.busy_ns.load();
  const uint64_t gained = busy - seat.window_busy_ns.load();
  const double share = static_cast<double>(gained) / static_cast<double>(age);
  seat.percent.store(static_cast<uint32_t>(std::min(100.0, share * 100 + 0.5)));
  seat.window_busy_ns.store(busy);
  seat.window_start_ns.store(static_cast<uint64_t>(now));
}

bool Engine::BeginAction(Queue* queue) {
  queue->head = Queue::Head::kActing;
  if (queue->operations.front().action->IsHostFunction()) {
    HandOver(queue);
    return false;
  }
  frozen_ = queue;
  return true;
}

void Engine::Complete(Queue* queue) {
  const MarkPtr mark = std::move(queue->operations.front().mark);
  queue->operations.pop_front();
  queue->head = Queue::Head::kWaiting;
  if (queue->operations.empty()) active_.erase(std::find(active_.begin(), active_.end(), queue));
  if (mark) {
    mark->time = clock_;
    mark->is_done.store(true);
  }
  const bool has_room = blocked_submitters_ > 0 && queue->operations.size() == kQueueDepth / 2;
  if (has_room || (mark && mark->awaited.load() > 0)) done_.notify_all();
}

void Engine::Kick() {
  if (planned_ == 0) return;
  planned_ = 0;
  WakeSeat(&state_->card(card_).seats[seat_].wake);
}

// Others on the card go faster now: their plans came out too late.
void Engine::WakeOthers() {
  const uint64_t busy = share_.Read(clock_).busy;
  for (uint32_t i = 0; i < kSeatsPerCard; ++i) {
    if ((busy >> i & 1) != 0 && i != seat_) WakeSeat(&state_->card(card_).seats[i].wake);
  }
}

}  // namespace krux::sim
