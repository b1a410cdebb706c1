// The tenant mixes that were measured on one H200 (driver 580.159.04, CUDA 13.0, 2026-11-30, no
// limiter), as programs for RunTenants. Kernel lengths are such that a tenant alone has the rate
// that was measured for it; what tenants get together is then for the model to say.
#ifndef KRUX_SIM_TESTING_H200_MIXES_H_
#define KRUX_SIM_TESTING_H200_MIXES_H_

#include <string>
#include <vector>

#include "sim/testing/tenants.h"

namespace krux::sim {

struct Mix {
  std::string name;
  std::vector<TenantProgram> programs;  // of the tenants
  double measured_percent;              // sum over the tenants of rate / rate alone
};

// Kernels back to back, two batches in flight.
inline TenantProgram Saturating(Nanos kernel, int batch) {
  return {.kernel = kernel, .kernels = batch, .rounds_in_flight = 2};
}
// One kernel on a quarter of the multiprocessors, waited for: 16 148 loops/s alone.
inline TenantProgram ShortSynchronous() { return {.kernel = 50'830}; }
// A kernel on the whole card, waited for, then 200 us on the host: 2 441 loops/s alone.
inline TenantProgram HostGaps() { return {.kernel = 198'570, .host_work = 200'000}; }
// A decoder-like model in eager PyTorch, 367 steps/s alone: about 140 short kernels a step, each
// launch with its share of Python.
inline TenantProgram EagerDecode() { return {.kernel = 3'500, .kernels = 140, .launch = 19'400}; }

// The same as one CUDA graph a step, 1 984 steps/s alone.
inline TenantProgram GraphDecode() { return {.kernel = 400'000, .launch = 97'000}; }
// 100 kernels of 50 us every 50 ms beside a tenant of 2 ms kernels: p50 and p99 of the requests.
inline TenantProgram Requests() { return {.kernel = 48'770, .kernels = 100, .period = 50'300'000}; }
constexpr double kRequestP50Ms = 11.0;
constexpr double kRequestP99Ms = 12.0;

inline std::vector<TenantProgram> Times(int n, const TenantProgram& program) {
  std::vector<TenantProgram> programs(static_cast<size_t>(n), program);
  // Real tenants do not start in step.
  for (size_t i = 0; i < programs.size(); ++i) programs[i].start = static_cast<Nanos>(i) * 37'000;
  return programs;
}

inline std::vector<Mix> H200Mixes() {
  const TenantProgram k50us = Saturating(48'770, 20);
  const TenantProgram k2ms = Saturating(2'000'000, 2);
  const TenantProgram k20ms = Saturating(20'000'000, 1);
  return {
      {"2 saturating, 50 us kernels", Times(2, k50us), 92},
      {"2 saturating, 2 ms kernels", Times(2, k2ms), 90.8},
      {"2 saturating, 50 us and 2 ms kernels", {k50us, k2ms}, 91},
      {"2 saturating, 2 ms and 20 ms kernels", {k2ms, k20ms}, 91},
      {"2 short synchronous", Times(2, ShortSynchronous()), 2 * 2670 / 161.48},
      {"4 short synchronous", Times(4, ShortSynchronous()), 4 * 1331 / 161.48},
      {"2 with host gaps", Times(2, HostGaps()), 2 * 1493 / 24.41},
      {"4 with host gaps", Times(4, HostGaps()), 4 * 748 / 24.41},
  };
}

// PyTorch programs: how they launch and wait inside a step is guessed, so what comes out says more
// about the guess than about the card. Shown by the bench, held to nothing.
inline std::vector<Mix> H200GuessedMixes() {
  return {
      {"2 eager decoders", Times(2, EagerDecode()), 562 / 3.67},
      {"4 eager decoders", Times(4, EagerDecode()), 847 / 3.67},
      {"2 decoders as CUDA graphs", Times(2, GraphDecode()), 1781 / 19.84},
      {"4 decoders as CUDA graphs", Times(4, GraphDecode()), 2395 / 19.84},
  };
}

}  // namespace krux::sim

#endif  // KRUX_SIM_TESTING_H200_MIXES_H_
