// What krux-sim and the libraries do to the health of a card. Each is a few atomic stores in an
// order in which no reader sees a loss without its reason.
#include "sim/state/state.h"
#include "sim/state/time.h"

namespace krux::sim {

void SharedState::CountArmedFaults() {
  uint32_t armed = 0;
  for (const Fault& fault : state_->faults) armed += fault.armed.load() == 1 ? 1 : 0;
  state_->faults_armed.store(armed);
}

void SharedState::ReportXid(uint32_t card, uint32_t xid) {
  CardHealth& health = state_->cards[card].health;
  // The slot first: who sees the new number finds the XID.
  const uint64_t number = health.xids.load();
  health.xid_log[number % kXidLog].store(xid);
  health.xids.store(number + 1);
}

void SharedState::LoseCard(uint32_t card, bool is_lost) {
  CardHealth& health = state_->cards[card].health;
  health.epoch.fetch_add(1);
  health.lost.store(is_lost ? 1 : 0);
  for (Seat& seat : state_->cards[card].seats) {
    if (seat.own_pid.load() != 0) WakeSeat(&seat.wake);
  }
}

void SharedState::ResetCard(uint32_t card) {
  CardHealth& health = state_->cards[card].health;
  health.ecc_corrected.store(0);
  health.ecc_uncorrected.store(0);
  health.needs_reset.store(0);
  LoseCard(card, false);
}

void SharedState::AddEccErrors(uint32_t card, uint64_t corrected, uint64_t uncorrected) {
  constexpr uint32_t kXidDoubleBit = 48;
  CardHealth& health = state_->cards[card].health;
  health.ecc_corrected_aggregate.fetch_add(corrected);
  health.ecc_corrected.fetch_add(corrected);
  if (uncorrected == 0) return;
  health.needs_reset.store(1);
  health.ecc_uncorrected_aggregate.fetch_add(uncorrected);
  health.ecc_uncorrected.fetch_add(uncorrected);
  ReportXid(card, kXidDoubleBit);
  LoseCard(card, health.lost.load() != 0);
}

}  // namespace krux::sim
