// What Krux asks of the driver's management library (NVML): the cards, their memory, who uses it,
// and whether a card still works.
//
// Who calls it: the agent (inventory at start, per-process memory to settle contexts and to audit)
// and the device plugin (inventory, health). Both take an Nvml*, so that tests hand in a fake.
//
// Thread rule: thread-safe. Calls reach the kernel driver: about 10 us to 10 ms, never on a launch
// path. A card is named by its UUID in every call; nothing is kept that a driver reload would make
// stale except the library itself: after kUnavailable drop the object and open a new one.
#ifndef KRUX_GPU_NVML_H_
#define KRUX_GPU_NVML_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"

namespace krux::gpu {

// One physical card that Krux can share.
struct Device {
  std::string uuid;           // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
  std::string model;          // "NVIDIA H200"
  uint64_t memory_bytes = 0;  // physical total
  unsigned minor = 0;         // /dev/nvidia<minor>
  std::string pci_bus_id;     // "00000000:18:00.0"; empty where the driver does not say
  int numa_node = -1;         // of the host, nearest to the card; -1 where the driver does not say
  std::vector<std::string>
      linked_to{};  // UUIDs of the listed cards that NVLink joins with this one
  bool operator==(const Device&) const = default;
};

struct DeviceList {
  std::vector<Device> devices;  // in NVML's order
  // Cards that are there and not shared, one sentence each that names the card and says why (MIG
  // is on; the card does not answer).
  std::vector<std::string> left_out;
};

struct MemoryInfo {
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;  // includes what the driver keeps for itself
  uint64_t free_bytes = 0;
};

// A fault that the driver reported for a card (the numbers are in NVIDIA's XID catalogue).
struct Xid {
  std::string uuid;
  unsigned long long number = 0;
  bool operator==(const Xid&) const = default;
};

// Whether this fault is the card's. The others are an application's own doing (a bad pointer, a
// page fault, a kernel that ran too long): the card goes on.
bool IsCardFault(unsigned long long xid);

class Nvml {
 public:
  virtual ~Nvml() = default;

  virtual Result<std::string> DriverVersion() const = 0;  // "580.65.06"
  virtual Result<DeviceList> ListDevices() const = 0;
  virtual Result<MemoryInfo> Memory(const std::string& uuid) const = 0;

  // Bytes of each process that has a CUDA context on the card, by pid in the pid namespace of the
  // host's driver. Managed memory is not in it (the driver does not attribute it). A process whose
  // figure the driver withholds is left out.
  virtual Result<std::map<pid_t, uint64_t>> ProcessMemory(const std::string& uuid) const = 0;

  // Ok while the card can take work. The error says what is wrong in words for an event: the card
  // fell off the bus, its memory waits for a repair, it does not answer.
  virtual Status CheckHealth(const std::string& uuid) const = 0;

  // The XIDs since the last call, oldest first; never waits. Empty where the driver reports none.
  virtual std::vector<Xid> TakeXids() { return {}; }
};

// Loads the library at `path` and initialises it. kNotFound: no such library; kUnavailable: the
// kernel driver does not answer (not loaded, or being reloaded); kFailedPrecondition: the library
// lacks a function that Krux needs. The library stays loaded for the life of the process.
Result<std::unique_ptr<Nvml>> OpenNvml(const std::string& path);

}  // namespace krux::gpu

#endif  // KRUX_GPU_NVML_H_
