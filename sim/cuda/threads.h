// Threads and sleeping for the engine. Thread-safe.
#ifndef KRUX_SIM_CUDA_THREADS_H_
#define KRUX_SIM_CUDA_THREADS_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "common/clock.h"

namespace krux::sim {

// A detached thread that takes no signals of the program and whose sleeps are exact to the
// microsecond (timer slack 1 ns).
void StartThread(const char* name, std::function<void()> body);

// Sleeps until `until` (INT64_MAX: for ever), or until the word is not `seen` any more. The word
// lies in shared memory: other processes wake us too.
void SleepOnSeat(std::atomic<uint32_t>* word, uint32_t seen, Nanos until);
// Changes the word and wakes who sleeps on it.
void WakeSeat(std::atomic<uint32_t>* word);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_THREADS_H_
