// Processes that are killed at random times, and what that does to the account and to a neighbour.
#ifndef KRUX_BENCH_MEMORY_TENANT_KILLS_H_
#define KRUX_BENCH_MEMORY_TENANT_KILLS_H_

namespace krux::bench {

// Kills `count` processes, `parallel` of them alive at a time, each within longest_ms of its start.
// Prints, as one line of JSON, how long after its death (when the kernel has released all that it
// had) each was still listed, how long a neighbour waited for a refusal at most, and what was left.
int KillAtRandom(int count, int parallel, int longest_ms);

}  // namespace krux::bench

#endif  // KRUX_BENCH_MEMORY_TENANT_KILLS_H_
