// Threads for the engine. Thread-safe.
#ifndef KRUX_SIM_CUDA_THREADS_H_
#define KRUX_SIM_CUDA_THREADS_H_

#include <functional>

namespace krux::sim {

// A detached thread that takes no signals of the program and whose sleeps are exact to the
// microsecond (timer slack 1 ns).
void StartThread(const char* name, std::function<void()> body);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_THREADS_H_
