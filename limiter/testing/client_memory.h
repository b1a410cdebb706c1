// More commands of the test client: what people reported of other limiters, as call sequences.
#ifndef KRUX_LIMITER_TESTING_CLIENT_MEMORY_H_
#define KRUX_LIMITER_TESTING_CLIENT_MEMORY_H_

#include <cstddef>
#include <string>
#include <vector>

// Does the command and prints its line; false when it is none of these:
//   cycle:BYTES:COUNT | random:SEED:COUNT | halve:BYTES | state | vmmat:TYPE:ID | unknownfree |
//   managedpool:BYTES | module:BYTES | local:BYTES | stack:BYTES | createstreams:N | graph:BYTES |
//   captured:BYTES | mipmap:W:H:LEVELS | nvml2 | utilization | engines | dlmopen
bool DoMemory(const std::string& command, const std::vector<size_t>& n);

#endif  // KRUX_LIMITER_TESTING_CLIENT_MEMORY_H_
