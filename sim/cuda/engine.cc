#include "sim/cuda/engine.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "sim/cuda/threads.h"
#include "sim/state/time.h"

namespace krux::sim {
namespace {

constexpr size_t kQueueDepth = 1024;

bool NeedsCard(const Queue& queue) {
  return queue.head == Queue::Head::kRunning && queue.operations.front().on_card;
}

bool IsComplex(const Operation& operation) {
  return operation.action != nullptr || operation.after != nullptr ||
         (!operation.on_card && operation.cost > 0);
}

}  // namespace

Engine::Engine(SharedState* state, uint32_t card, uint32_t seat, Threads threads)
    : state_(state),
      card_(card),
      seat_(seat),
      share_(&state->card(card)),
      has_threads_(threads == Threads::kOwn),
      epoch_(state->card(card).health.epoch.load()) {
  state->card(card).seats[seat].settled_ns.store(static_cast<uint64_t>(state->Now()));
  if (has_threads_) StartThread("krux-sim-card", [this] { Execute(); });
}

void Engine::CatchUp() {
  if (frozen_ == nullptr && Advance(state_->Now()) != nullptr) Kick();
}

void Engine::CountIn(Queue* queue, const Operation& operation, int sign) const {
  if (operation.on_card) queue->card_time += sign * operation.cost;
  if (IsComplex(operation)) queue->complex += sign;
}

void Engine::Submit(Queue* queue, Operation operation) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (queue->operations.size() >= kQueueDepth) {
    ++blocked_submitters_;
    done_.wait_for(lock, std::chrono::milliseconds(1));
    --blocked_submitters_;
    CatchUp();
  }
  const Nanos now = state_->Now();
  operation.submitted = now;
  const bool was_empty = queue->operations.empty();
  if (was_empty && operation.on_card) operation.cost += state_->card(card_).launch_ns;
  CountIn(queue, operation, 1);
  queue->operations.push_back(std::move(operation));
  if (!was_empty) {
    // The executor wakes at the end of each queue anyway: only a queue that begins changes its
    // plan.
    if (is_on_card_ && demand_ != kUnknownDemand) UpdateDemand();
    return;
  }
  if (active_.empty()) clock_ = std::max(clock_, now);
  active_.push_back(queue);
  if (frozen_ == nullptr) Advance(now);
  Kick();
}

MarkPtr Engine::Tail(Queue* queue) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CatchUp();
  if (queue->operations.empty()) return nullptr;
  MarkPtr& mark = queue->operations.back().mark;
  if (!mark) mark = std::make_shared<Mark>(this);
  return mark;
}

bool Engine::IsEmpty(Queue* queue) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CatchUp();
  return queue->operations.empty();
}

bool Engine::IsDone(const Mark& mark) {
  if (mark.is_done.load()) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  CatchUp();
  return mark.is_done.load();
}

void Engine::Wait(const MarkPtr& mark) {
  std::unique_lock<std::mutex> lock(mutex_);
  CatchUp();
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
  has_rejoined_ = false;
  while (true) {
    StartHeads();
    UpdateSeat();
    const Next next = FindNext(now);
    Progress(next);
    if (next.queue == nullptr) {
      UpdateDemand();
      return nullptr;
    }
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

// How much work for the card is known to come without a break; kUnknownDemand when that depends on
// more than one stream of kernels.
Nanos Engine::WorkLeft() const {
  if (active_.size() != 1 || active_[0]->complex > 0 || !NeedsCard(*active_[0])) {
    return kUnknownDemand;
  }
  const Queue& queue = *active_[0];
  const Nanos later = queue.card_time - queue.operations.front().cost;
  return later + static_cast<Nanos>(std::ceil(std::max(queue.remaining, 0.0)));
}

void Engine::UpdateDemand() {
  if (!is_on_card_) return;
  const Nanos work = WorkLeft();
  const Nanos demand = work == kUnknownDemand ? work : served_ + work;
  if (demand == demand_) return;
  share_.SetDemand(seat_, demand);
  // Others who did not know when our turn ends know it now.
  if (demand < demand_) WakeOthers(share_.ReadBusy());
  demand_ = demand;
}

void Engine::UpdateSeat() {
  const bool needs_card =
      std::any_of(active_.begin(), active_.end(), [](Queue* queue) { return NeedsCard(*queue); });
  if (needs_card == is_on_card_) return;
  is_on_card_ = needs_card;
  if (needs_card) {
    const Nanos work = WorkLeft();
    const Turns turns = share_.Join(seat_, clock_, work);
    clock_ = std::max(clock_, turns.clock);
    served_ = turns.served[seat_];
    demand_ = work == kUnknownDemand ? work : served_ + work;
    return;
  }
  // When the demand was known, everybody knows that our turn is over.
  if (!share_.ReadAt(clock_).IsBusy(seat_)) return;
  WakeOthers(share_.Leave(seat_, clock_).busy);
}

double Engine::Width() const {
  double width = 0;
  for (const Queue* queue : active_) {
    if (NeedsCard(*queue)) width += static_cast<double>(queue->operations.front().width);
  }
  return std::max(width, 1.0);
}

// The running kernel that ends first. REQUIRES: there is one.
Queue* Engine::FirstOnCard() const {
  Queue* first = nullptr;
  for (Queue* queue : active_) {
    if (!NeedsCard(*queue)) continue;
    if (first == nullptr || queue->remaining < first->remaining) first = queue;
  }
  return first;
}

// The level of service at which it ends. What is left below a nanosecond is rounding.
Nanos Engine::NextLevel() const {
  const double remaining = FirstOnCard()->remaining;
  return served_ + (remaining < 1 ? 0 : static_cast<Nanos>(std::ceil(remaining * Width())));
}

void Engine::NextInPlainTime(Next* next) const {
  for (Queue* queue : active_) {
    const Operation& operation = queue->operations.front();
    const bool is_start = queue->head == Queue::Head::kWaiting && operation.submitted > clock_;
    Nanos time = kNever;
    if (is_start) {
      time = operation.submitted;
    } else if (queue->head == Queue::Head::kRunning && !operation.on_card) {
      time = clock_ + static_cast<Nanos>(queue->remaining < 1 ? 0 : queue->remaining);
    }
    if (time > next->time || (time == next->time && next->queue != nullptr)) continue;
    next->queue = queue;
    next->time = time;
    next->is_start = is_start;
  }
}

void Engine::NextOnCard(Next* next) {
  SeatView view(share_, seat_, clock_, served_);
  const Nanos level = NextLevel();
  if (!view.Covers(level) && !has_rejoined_) {
    // Others thought that our work was done, because we queued more just then: join again.
    is_on_card_ = false;
    has_rejoined_ = true;
    UpdateSeat();
    next->time = std::max(next->time, clock_);
    view = SeatView(share_, seat_, clock_, served_);
  }
  const Nanos time = view.WhenServed(level, next->time);
  if (time == kNever) {
    next->served = SeatView(share_, seat_, clock_, served_).ServedAt(next->time);
    return;
  }
  *next = {FirstOnCard(), time, level, false};
}

Engine::Next Engine::FindNext(Nanos now) {
  Next next;
  next.time = std::max(now, clock_);
  next.served = served_;
  NextInPlainTime(&next);
  if (is_on_card_) NextOnCard(&next);
  return next;
}

void Engine::Progress(const Next& next) {
  const Nanos elapsed = next.time - clock_;
  const Nanos gained = std::max<Nanos>(next.served - served_, 0);
  const double each = static_cast<double>(gained) / Width();
  for (Queue* queue : active_) {
    if (queue->head != Queue::Head::kRunning) continue;
    queue->remaining -= queue->operations.front().on_card ? each : static_cast<double>(elapsed);
  }
  served_ = std::max(next.served, served_);
  clock_ = std::max(next.time, clock_);
  if (elapsed > 0) AccountBusy(gained, clock_);
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
  if (has_threads_ && queue->operations.front().action->IsHostFunction()) {
    HandOver(queue);
    return false;
  }
  frozen_ = queue;
  return true;
}

void Engine::Complete(Queue* queue) {
  const MarkPtr mark = std::move(queue->operations.front().mark);
  CountIn(queue, queue->operations.front(), -1);
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

// Our turn ends sooner than others could know: their plans came out too late.
void Engine::WakeOthers(uint64_t busy) {
  for (uint32_t i = 0; i < kSeatsPerCard; ++i) {
    if ((busy >> i & 1) != 0 && i != seat_) WakeSeat(&state_->card(card_).seats[i].wake);
  }
}

}  // namespace krux::sim
