// The part of NVML's C interface that Krux calls, declared by hand: NVML's header is not free to
// ship, and its layouts are stable. Names and values are the vendor's. Only nvml.cc includes this.
#ifndef KRUX_GPU_NVML_ABI_H_
#define KRUX_GPU_NVML_ABI_H_

#include <cstddef>

namespace krux::gpu::abi {

using Return = int;
constexpr Return kSuccess = 0;
constexpr Return kUninitialized = 1;
constexpr Return kNotSupported = 3;
constexpr Return kNoPermission = 4;
constexpr Return kNotFound = 6;
constexpr Return kInsufficientSize = 7;
constexpr Return kDriverNotLoaded = 9;
constexpr Return kLibRmVersionMismatch = 18;
constexpr Return kGpuIsLost = 15;
constexpr Return kResetRequired = 16;
constexpr Return kUnknown = 999;

constexpr unsigned long long kValueNotAvailable = ~0ULL;
constexpr unsigned kUuidBytes = 96;
constexpr unsigned kNameBytes = 96;
constexpr unsigned kVersionBytes = 80;

struct DeviceOpaque;
using Device = DeviceOpaque*;

struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};

struct PciInfo {  // nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

struct ProcessInfo {  // nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned pid;
  unsigned long long used_gpu_memory;
  unsigned gpu_instance_id;
  unsigned compute_instance_id;
};

constexpr int kAffinityOfNode = 0;  // nvmlAffinityScope_t
constexpr int kP2pNvlink = 2;       // nvmlGpuP2PCapsIndex_t
constexpr int kP2pOk = 0;           // nvmlGpuP2PStatus_t

struct EventSetOpaque;
using EventSet = EventSetOpaque*;
constexpr unsigned long long kEventXidCritical = 8;

struct EventData {  // nvmlEventData_t of nvmlEventSetWait_v2
  Device device;
  unsigned long long type;
  unsigned long long data;  // of an XID event: its number
  unsigned gpu_instance_id;
  unsigned compute_instance_id;
};

static_assert(sizeof(EventData) == 32);
static_assert(sizeof(Memory) == 24);
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);
static_assert(sizeof(ProcessInfo) == 24 && offsetof(ProcessInfo, used_gpu_memory) == 8);

// Functions by name. The optional ones may be missing (old drivers, the simulated card): what they
// tell is then taken as "nothing to report".
struct Functions {
  Return (*Init)();
  Return (*Shutdown)();
  const char* (*ErrorString)(Return);
  Return (*SystemGetDriverVersion)(char*, unsigned);
  Return (*DeviceGetCount)(unsigned*);
  Return (*DeviceGetHandleByIndex)(unsigned, Device*);
  Return (*DeviceGetHandleByUUID)(const char*, Device*);
  Return (*DeviceGetUUID)(Device, char*, unsigned);
  Return (*DeviceGetName)(Device, char*, unsigned);
  Return (*DeviceGetMemoryInfo)(Device, Memory*);
  Return (*DeviceGetMinorNumber)(Device, unsigned*);
  Return (*DeviceGetComputeRunningProcesses)(Device, unsigned*, ProcessInfo*);
  // Optional.
  Return (*DeviceGetPciInfo)(Device, PciInfo*);
  Return (*DeviceGetMemoryAffinity)(Device, unsigned words, unsigned long* nodes, int scope);
  Return (*DeviceGetP2PStatus)(Device, Device, int what, int* status);
  Return (*DeviceGetMigMode)(Device, unsigned* current, unsigned* pending);
  Return (*DeviceGetRemappedRows)(Device, unsigned* correctable, unsigned* uncorrectable,
                                  unsigned* pending, unsigned* failed);
  Return (*EventSetCreate)(EventSet*);
  Return (*EventSetFree)(EventSet);
  Return (*DeviceRegisterEvents)(Device, unsigned long long types, EventSet);
  Return (*EventSetWait)(EventSet, EventData*, unsigned timeout_ms);
};

}  // namespace krux::gpu::abi

#endif  // KRUX_GPU_NVML_ABI_H_
