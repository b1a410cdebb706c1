// Tenants of one simulated card in virtual time: several engines in one process, each standing for
// a process, and host programs that are as fast as they are told. Deterministic: the same programs
// give the same figures on every machine.
//
// Used by tests and by bench/sim_time. One thread.
#ifndef KRUX_SIM_TESTING_TENANTS_H_
#define KRUX_SIM_TESTING_TENANTS_H_

#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "common/result.h"
#include "sim/state/state.h"

namespace krux::sim {

// What a program does again and again: launch, wait, work on the host.
struct TenantProgram {
  Nanos kernel = 0;          // length of one kernel, alone on the card
  int kernels = 1;           // in one round
  Nanos launch = 0;          // host time of each launch
  int rounds_in_flight = 0;  // 0: each round is waited for; n: waits for the n-th before it
  Nanos host_work = 0;       // after the wait
  Nanos period = 0;          // 0: the next round follows at once; else rounds start on its beat
  Nanos start = 0;           // offset of the first round
};

// How fast the host is; measured on the H200's machine.
struct HostTimes {
  Nanos launch = 4100;  // a call of cuLaunchKernel, used where a program does not say
  Nanos notice = 4000;  // from the end of the work to the return of the call that waits for it
};

struct TenantResult {
  double rounds_per_second = 0;
  std::vector<Nanos> waits;  // of each round: first launch until its end was noticed
  Nanos Percentile(double percent) const;
};

// Runs the programs for `length` of virtual time on card 0 of the node, after a warm-up of a tenth
// of that. The node must be new: it is put into virtual time.
Result<std::vector<TenantResult>> RunTenants(SharedState* node, const HostTimes& host,
                                             const std::vector<TenantProgram>& programs,
                                             Nanos length);

}  // namespace krux::sim

#endif  // KRUX_SIM_TESTING_TENANTS_H_
