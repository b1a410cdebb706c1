#include "sim/state/share.h"

#include <algorithm>
#include <bit>

namespace krux::sim {
namespace {

// The head: number of changes, seat, and which of its two nodes.
constexpr int kNodeBits = 1;
constexpr int kSeatBits = 6;
constexpr uint64_t kIndexMask = (1 << (kNodeBits + kSeatBits)) - 1;
static_assert(kSeatsPerCard == 1 << kSeatBits);

// A demand word: number of the stay, and the level (all ones: unknown).
constexpr int kLevelBits = 56;
constexpr uint64_t kLevelMask = (uint64_t{1} << kLevelBits) - 1;

constexpr Nanos kLongestTime = Nanos{1} << 55;  // 417 days
constexpr Nanos kLongestPhase = 10 * kSecond;
constexpr uint32_t kSwitchingFlag = 0x100;
constexpr int kMostTries = 10000;  // more means that somebody writes garbage without end

uint64_t PackDemand(uint64_t stay, Nanos level) {
  const uint64_t value = level == kUnknownDemand ? kLevelMask : static_cast<uint64_t>(level);
  return (stay << kLevelBits) | (value & kLevelMask);
}

Nanos LevelOf(uint64_t word) {
  const uint64_t value = word & kLevelMask;
  return value == kLevelMask ? kUnknownDemand : static_cast<Nanos>(value);
}

uint64_t StayOf(uint64_t word) { return word >> kLevelBits; }

Nanos Bounded(uint64_t word) {
  return std::clamp<Nanos>(static_cast<Nanos>(word), 0, kLongestTime);
}

}  // namespace

TurnRules CardShare::rules() const {
  constexpr Nanos kShortest = 10 * kMicrosecond;
  TurnRules rules;
  rules.slice = std::clamp<Nanos>(card_->slice_ns, kShortest, kLongestPhase);
  rules.drain_switch = std::clamp<Nanos>(card_->drain_switch_ns, 0, kLongestPhase);
  rules.preempt_switch = std::clamp<Nanos>(card_->preempt_switch_ns, 0, kLongestPhase);
  return rules;
}

void CardShare::LoadNode(const TurnsNode& node, uint64_t more, Copy* copy) const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  Turns& turns = copy->turns;
  turns.clock = Bounded(node.clock.load(kRelaxed));
  turns.busy = node.busy.load(kRelaxed);
  const uint64_t owner = node.owner.load(kRelaxed);
  const uint32_t owner_seat = static_cast<uint32_t>(owner & 0xff) - 1;
  turns.owner = std::min(owner_seat, kNobody);
  turns.is_switching = (owner & kSwitchingFlag) != 0 && turns.owner != kNobody;
  turns.phase_end = std::min(Bounded(node.phase_end.load(kRelaxed)), turns.clock + kLongestPhase);
  for (uint64_t rest = turns.busy | more; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(rest));
    turns.served[i] = Bounded(node.served[i].load(kRelaxed));
    turns.ran_until[i] = Bounded(node.ran_until[i].load(kRelaxed));
    const uint64_t word = node.demand[i].load(kRelaxed);
    copy->demand_words[i] = word;
    // The seat's own word is newer, unless it speaks of another stay.
    const uint64_t own = card_->seats[i].demand.load(kRelaxed);
    turns.demand[i] = LevelOf(StayOf(own) == StayOf(word) ? own : word);
  }
}

void CardShare::StoreNode(const Copy& copy, TurnsNode* node) const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const Turns& turns = copy.turns;
  node->clock.store(static_cast<uint64_t>(turns.clock), kRelaxed);
  node->busy.store(turns.busy, kRelaxed);
  const uint64_t owner = turns.owner == kNobody ? 0 : turns.owner + 1;
  node->owner.store(owner | (turns.is_switching ? kSwitchingFlag : 0), kRelaxed);
  node->phase_end.store(static_cast<uint64_t>(turns.phase_end), kRelaxed);
  for (uint32_t i = 0; i < kSeatsPerCard; ++i) {
    node->served[i].store(static_cast<uint64_t>(turns.served[i]), kRelaxed);
    node->ran_until[i].store(static_cast<uint64_t>(turns.ran_until[i]), kRelaxed);
    node->demand[i].store(copy.demand_words[i], kRelaxed);
  }
}

CardShare::Copy CardShare::Load(uint64_t more) const {
  Copy copy;
  for (int tries = 0;; ++tries) {
    copy.head = card_->head.load(std::memory_order_acquire);
    LoadNode(card_->nodes[copy.head & kIndexMask], more, &copy);
    std::atomic_thread_fence(std::memory_order_acquire);
    const bool is_whole = card_->head.load(std::memory_order_relaxed) == copy.head;
    if (is_whole || tries >= kMostTries) return copy;
  }
}

uint64_t CardShare::ReadBusy() const {
  while (true) {
    const uint64_t head = card_->head.load(std::memory_order_acquire);
    const uint64_t busy = card_->nodes[head & kIndexMask].busy.load(std::memory_order_acquire);
    if (card_->head.load(std::memory_order_relaxed) == head) return busy;
  }
}

Turns CardShare::ReadAt(Nanos now) const {
  Turns turns = Read();
  turns.AdvanceTo(rules(), now);
  return turns;
}

template <typename F>
Turns CardShare::Change(uint32_t seat, Nanos at, F change) {
  const TurnRules rules_now = rules();
  for (int tries = 0;; ++tries) {
    Copy copy = Load(~uint64_t{0});
    copy.turns.AdvanceTo(rules_now, at);
    change(&copy);
    const uint64_t first = seat << kNodeBits;
    const uint64_t spare = (copy.head & kIndexMask) == first ? first + 1 : first;
    // Who still reads the spare node as the head it was sees the new head before the new words.
    std::atomic_thread_fence(std::memory_order_release);
    StoreNode(copy, &card_->nodes[spare]);
    const uint64_t next = ((copy.head & ~kIndexMask) + kIndexMask + 1) | spare;
    if (card_->head.compare_exchange_strong(copy.head, next) || tries >= kMostTries) {
      return copy.turns;
    }
  }
}

Turns CardShare::Join(uint32_t seat, Nanos at, Nanos work) {
  uint64_t word = 0;
  const Turns turns = Change(seat, at, [&](Copy* copy) {
    const uint64_t stay = (StayOf(copy->demand_words[seat]) + 1) & 0xff;
    const Nanos level = work == kUnknownDemand ? work : copy->turns.served[seat] + work;
    copy->turns.Join(seat, level);
    word = PackDemand(stay, level);
    copy->demand_words[seat] = word;
  });
  card_->seats[seat].demand.store(word, std::memory_order_relaxed);
  return turns;
}

Turns CardShare::Leave(uint32_t seat, Nanos at) {
  return Change(seat, at, [seat](Copy* copy) { copy->turns.Leave(seat); });
}

void CardShare::SetDemand(uint32_t seat, Nanos level) {
  std::atomic<uint64_t>& word = card_->seats[seat].demand;
  word.store(PackDemand(StayOf(word.load(std::memory_order_relaxed)), level),
             std::memory_order_relaxed);
}

void CardShare::Refresh(uint32_t seat, Nanos now) {
  Change(seat, now, [](Copy*) {});
}

SeatView::SeatView(const CardShare& share, uint32_t seat, Nanos from, Nanos served)
    : rules_(share.rules()),
      seat_(seat),
      from_(from),
      from_served_(served),
      turns_(share.Read(seat)) {
  turns_.AdvanceTo(rules_, from);
}

bool SeatView::Covers(Nanos level) const {
  return turns_.IsBusy(seat_) || turns_.served[seat_] >= level;
}

// The state was written later than `from_`: of the time between, the end of the seat's last run is
// known, and that it was served as far as it says.
Nanos SeatView::TimeInPast(Nanos level) const {
  const Nanos missing = turns_.served[seat_] - level;
  return std::clamp(turns_.ran_until[seat_] - missing, from_, std::max(from_, turns_.clock));
}

Nanos SeatView::WhenServed(Nanos level, Nanos limit) {
  if (turns_.served[seat_] >= level) {
    const Nanos time = level <= from_served_ ? from_ : TimeInPast(level);
    return time <= limit ? time : kNever;
  }
  return turns_.AdvanceToService(rules_, limit, seat_, level);
}

Nanos SeatView::ServedAt(Nanos time) {
  if (time < turns_.clock && turns_.clock > from_) {
    // Between `from_` and the state's clock: as if served evenly.
    const double part =
        static_cast<double>(time - from_) / static_cast<double>(turns_.clock - from_);
    const Nanos gained = std::max<Nanos>(turns_.served[seat_] - from_served_, 0);
    return from_served_ + static_cast<Nanos>(part * static_cast<double>(gained));
  }
  turns_.AdvanceTo(rules_, time);
  return std::max(turns_.served[seat_], from_served_);
}

}  // namespace krux::sim
