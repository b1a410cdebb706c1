// Sleeping until a time of the node's clock or until somebody calls: the word is Seat::wake, in
// shared memory, so other processes wake us too. Thread-safe.
#ifndef KRUX_SIM_STATE_TIME_H_
#define KRUX_SIM_STATE_TIME_H_

#include <atomic>
#include <cstdint>

#include "common/clock.h"

namespace krux::sim {

// Sleeps until `until` on CLOCK_MONOTONIC (kNever: for ever), or until the word is not `seen` any
// more.
void SleepOnSeat(std::atomic<uint32_t>* word, uint32_t seen, Nanos until);
// Changes the word and wakes who sleeps on it.
void WakeSeat(std::atomic<uint32_t>* word);

}  // namespace krux::sim

#endif  // KRUX_SIM_STATE_TIME_H_
