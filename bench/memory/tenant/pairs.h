// What a call costs, by the door that the program has and by the driver's own function, in one
// process: processes differ from each other by more than a limiter adds.
#ifndef KRUX_BENCH_MEMORY_TENANT_PAIRS_H_
#define KRUX_BENCH_MEMORY_TENANT_PAIRS_H_

namespace krux::bench {

// For each line "alloc BYTES BLOCKS COUNT", "async BYTES BLOCKS COUNT" or "info 0 BLOCKS COUNT" on
// standard input: BLOCKS times COUNT pairs (or calls) by each door, the doors in turn. Prints the
// median time of each block, in nanoseconds, as {"own":[...],"driver":[...]}.
int TimePairs();

}  // namespace krux::bench

#endif  // KRUX_BENCH_MEMORY_TENANT_PAIRS_H_
