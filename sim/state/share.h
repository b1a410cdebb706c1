// The turns of a card's processes (sim/state/turns.h) in shared memory: read and changed by all of
// them without a lock, and never half written.
//
// A state is a node that is complete before `Card::head` points to it and is not written again
// while it does. Each seat owns two nodes, so there is always one that is not the head; whoever
// changes the state fills it and swaps the head by compare-and-swap. A process that dies in between
// has changed nothing. The head counts its changes, so a reader knows whether what it copied was
// whole.
//
// A seat's demand (until which level of service it has work) changes with each launch and is
// therefore one store beside the nodes; it counts for the stay that it names.
//
// Thread rule: reading is free; changes for one seat are made by one thread at a time (the engine's
// lock; for a dead seat whoever holds its lock). All values are taken as if others had written
// garbage: they are brought into bounds, and no loop depends on them.
#ifndef KRUX_SIM_STATE_SHARE_H_
#define KRUX_SIM_STATE_SHARE_H_

#include <cstdint>

#include "sim/state/layout.h"
#include "sim/state/turns.h"

namespace krux::sim {

class CardShare {
 public:
  explicit CardShare(Card* card) : card_(card) {}

  TurnRules rules() const;
  // As last written; its clock lies in the past, or a little ahead of what the caller calls now.
  // Figures of seats that have no work are left out (0), but for `seat`.
  Turns Read(uint32_t seat = kNobody) const { return Load(SeatBit(seat)).turns; }
  // Who has work, as last written.
  uint64_t ReadBusy() const;
  // As it is at `now`, when nothing else happens.
  Turns ReadAt(Nanos now) const;

  // Puts the seat on the card as of `at` (later if the state is ahead), with work for `work` more
  // nanoseconds of service or kUnknownDemand. Returns the state after that.
  Turns Join(uint32_t seat, Nanos at, Nanos work);
  Turns Leave(uint32_t seat, Nanos at);
  // Changes the level of service at which the work of a seat that is on the card ends.
  void SetDemand(uint32_t seat, Nanos level);
  // Writes the state of `now`, so that nobody has to walk through a long past.
  void Refresh(uint32_t seat, Nanos now);

 private:
  struct Copy {
    Turns turns;
    uint64_t demand_words[kSeatsPerCard];  // as in TurnsNode
    uint64_t head;
  };

  static uint64_t SeatBit(uint32_t seat) { return seat < kNobody ? uint64_t{1} << seat : 0; }
  // Copies what is there of busy seats and of those in `more`.
  Copy Load(uint64_t more) const;
  void LoadNode(const TurnsNode& node, uint64_t more, Copy* copy) const;
  void StoreNode(const Copy& copy, TurnsNode* node) const;
  template <typename F>
  Turns Change(uint32_t seat, Nanos at, F change);

  Card* card_;
};

// What one seat gets from its card from a time on: the engine's look into past and future.
class SeatView {
 public:
  // At `from` the seat had been served up to `served`.
  SeatView(const CardShare& share, uint32_t seat, Nanos from, Nanos served);

  // True while the card knows that the seat has work, or has served it up to `level`.
  bool Covers(Nanos level) const;
  // When the seat will have been served up to `level`; kNever: not until `limit`. Moves the view.
  Nanos WhenServed(Nanos level, Nanos limit);
  // How far the seat has been served at `time`, which is not before one asked for earlier.
  Nanos ServedAt(Nanos time);

 private:
  Nanos TimeInPast(Nanos level) const;

  TurnRules rules_;
  uint32_t seat_;
  Nanos from_;
  Nanos from_served_;
  Turns turns_;
};

}  // namespace krux::sim

#endif  // KRUX_SIM_STATE_SHARE_H_
