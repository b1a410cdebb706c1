// More commands of the test client: several cards, and memory that two processes share.
#ifndef KRUX_LIMITER_TESTING_CLIENT_SHARING_H_
#define KRUX_LIMITER_TESTING_CLIENT_SHARING_H_

#include <cstddef>
#include <string>
#include <vector>

// Does the command and prints its line; false when it is none of these:
//   cards               what NVML shows as used on each card, in MiB
//   peers               what the driver says of each pair of devices, and of enabling access
//   share:BYTES         a handle that others may import: its process and descriptor
//   import:PID:FD       that handle
//   ipcget              a handle of new linear memory, 2 MiB, as hex
//   ipcopen:HEX         that memory (`word`)
bool DoSharing(const std::string& command, const std::vector<size_t>& n, const std::string& word);

#endif  // KRUX_LIMITER_TESTING_CLIENT_SHARING_H_
