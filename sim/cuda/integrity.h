// The proof that the CUDA runtime asks a driver for at start, and compares with its own sum.
#ifndef KRUX_SIM_CUDA_INTEGRITY_H_
#define KRUX_SIM_CUDA_INTEGRITY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace krux::sim {

using Digest = std::array<unsigned char, 16>;

// MD2 of RFC 1319, and the keyed form of RFC 2104 with it (keys of at most 16 bytes).
Digest Md2(std::string_view text);
Digest HmacMd2(std::string_view key, std::string_view text);

// What the sum is taken over, in this order and layout.
struct IntegrityFacts {
  uint32_t driver_version;
  uint32_t asked;  // what the runtime gave: its kind in the last decimal digit
  uint32_t process;
  uint32_t thread;
  const void* runtime_table;
  const void* integrity_table;
  const void* function;
  uint64_t seconds;  // what the runtime gave: the time
};
struct IntegrityDevice {
  unsigned char uuid[16];
  int32_t pci_domain;
  int32_t pci_bus;
  int32_t pci_device;
};
Digest IntegrityProof(const IntegrityFacts& facts, const std::vector<IntegrityDevice>& devices);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_INTEGRITY_H_
