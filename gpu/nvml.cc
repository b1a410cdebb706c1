#include "gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>

#include "gpu/nvml_abi.h"
#include "protocol/grant.h"

namespace krux::gpu {
namespace {

// Beyond any machine; a damaged answer must not make us loop or allocate without end.
constexpr unsigned kMaxDevices = 128;
constexpr unsigned kMaxProcesses = 65536;
constexpr size_t kMaxEvents = 256;

ErrorCode CodeOf(abi::Return rc) {
  switch (rc) {
    case abi::kNoPermission:
      return ErrorCode::kPermissionDenied;
    case abi::kNotFound:
      return ErrorCode::kNotFound;
    case abi::kNotSupported:
      return ErrorCode::kUnimplemented;
    case abi::kGpuIsLost:
    case abi::kResetRequired:
      return ErrorCode::kFailedPrecondition;
    default:
      return ErrorCode::kUnavailable;
  }
}

// Finds one function, by its versioned name.
template <typename Function>
bool Find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(library, name));
  return out != nullptr;
}

// The name of the first required function that the library lacks, or nullptr.
const char* FindAll(void* library, abi::Functions& f) {
  const char* missing = nullptr;
  const auto require = [&](const char* name, auto& out) {
    if (!Find(library, name, out) && missing == nullptr) missing = name;
  };
  require("nvmlInit_v2", f.Init);
  require("nvmlShutdown", f.Shutdown);
  require("nvmlErrorString", f.ErrorString);
  require("nvmlSystemGetDriverVersion", f.SystemGetDriverVersion);
  require("nvmlDeviceGetCount_v2", f.DeviceGetCount);
  require("nvmlDeviceGetHandleByIndex_v2", f.DeviceGetHandleByIndex);
  require("nvmlDeviceGetHandleByUUID", f.DeviceGetHandleByUUID);
  require("nvmlDeviceGetUUID", f.DeviceGetUUID);
  require("nvmlDeviceGetName", f.DeviceGetName);
  require("nvmlDeviceGetMemoryInfo", f.DeviceGetMemoryInfo);
  require("nvmlDeviceGetMinorNumber", f.DeviceGetMinorNumber);
  require("nvmlDeviceGetComputeRunningProcesses_v3", f.DeviceGetComputeRunningProcesses);
  Find(library, "nvmlDeviceGetPciInfo_v3", f.DeviceGetPciInfo);
  Find(library, "nvmlDeviceGetMemoryAffinity", f.DeviceGetMemoryAffinity);
  Find(library, "nvmlDeviceGetP2PStatus", f.DeviceGetP2PStatus);
  Find(library, "nvmlDeviceGetMigMode", f.DeviceGetMigMode);
  Find(library, "nvmlDeviceGetRemappedRows", f.DeviceGetRemappedRows);
  Find(library, "nvmlEventSetCreate", f.EventSetCreate);
  Find(library, "nvmlEventSetFree", f.EventSetFree);
  Find(library, "nvmlDeviceRegisterEvents", f.DeviceRegisterEvents);
  Find(library, "nvmlEventSetWait_v2", f.EventSetWait);
  return missing;
}

class LoadedNvml final : public Nvml {
 public:
  explicit LoadedNvml(const abi::Functions& functions) : f_(functions) { WatchForXids(); }
  LoadedNvml(const LoadedNvml&) = delete;
  LoadedNvml& operator=(const LoadedNvml&) = delete;
  ~LoadedNvml() override {
    if (events_ != nullptr) f_.EventSetFree(events_);
    f_.Shutdown();
  }

  Result<std::string> DriverVersion() const override {
    char text[abi::kVersionBytes] = {};
    KRUX_RETURN_IF_ERROR(
        Check(f_.SystemGetDriverVersion(text, sizeof text - 1), "asking for the driver's version"));
    return std::string(text);
  }

  Result<DeviceList> ListDevices() const override {
    unsigned count = 0;
    KRUX_RETURN_IF_ERROR(Check(f_.DeviceGetCount(&count), "counting GPUs"));
    DeviceList list;
    for (unsigned i = 0; i < std::min(count, kMaxDevices); ++i) {
      const std::string place = "GPU " + std::to_string(i);
      Result<Device> device = Describe(i);
      if (device) {
        list.devices.push_back(std::move(*device));
      } else {
        list.left_out.push_back(place + " is not shared: " + device.error().message);
      }
    }
    FindLinks(&list.devices);
    return list;
  }

  Result<MemoryInfo> Memory(const std::string& uuid) const override {
    KRUX_ASSIGN_OR_RETURN(const abi::Device device, HandleOf(uuid));
    abi::Memory memory{};
    KRUX_RETURN_IF_ERROR(Check(f_.DeviceGetMemoryInfo(device, &memory), "reading its memory"));
    return MemoryInfo{memory.total, memory.used, memory.free};
  }

  Result<std::map<pid_t, uint64_t>> ProcessMemory(const std::string& uuid) const override {
    KRUX_ASSIGN_OR_RETURN(const abi::Device device, HandleOf(uuid));
    std::vector<abi::ProcessInfo> processes(64);
    abi::Return rc = abi::kInsufficientSize;
    unsigned count = 0;
    while (rc == abi::kInsufficientSize && processes.size() <= kMaxProcesses) {
      count = static_cast<unsigned>(processes.size());
      rc = f_.DeviceGetComputeRunningProcesses(device, &count, processes.data());
      // The list can grow between two calls, so there is always room beyond what was said.
      if (rc == abi::kInsufficientSize) {
        processes.resize(std::max<size_t>(count, processes.size()) * 2);
      }
    }
    KRUX_RETURN_IF_ERROR(Check(rc, "listing the processes of " + uuid));
    std::map<pid_t, uint64_t> bytes;
    processes.resize(std::min<size_t>(count, processes.size()));
    for (const abi::ProcessInfo& process : processes) {
      if (process.used_gpu_memory == abi::kValueNotAvailable) continue;
      bytes[static_cast<pid_t>(process.pid)] += process.used_gpu_memory;
    }
    return bytes;
  }

  Status CheckHealth(const std::string& uuid) const override {
    KRUX_ASSIGN_OR_RETURN(const abi::Device device, HandleOf(uuid));
    abi::Memory memory{};
    KRUX_RETURN_IF_ERROR(Check(f_.DeviceGetMemoryInfo(device, &memory), "reading its memory"));
    KRUX_RETURN_IF_ERROR(CheckMig(device));
    return CheckRows(device);
  }

  std::vector<Xid> TakeXids() override {
    std::vector<Xid> xids;
    abi::EventData event{};
    while (events_ != nullptr && xids.size() < kMaxEvents &&
           f_.EventSetWait(events_, &event, /*timeout_ms=*/0) == abi::kSuccess) {
      char uuid[abi::kUuidBytes] = {};
      if (event.type != abi::kEventXidCritical) continue;
      if (f_.DeviceGetUUID(event.device, uuid, sizeof uuid - 1) != abi::kSuccess) continue;
      xids.push_back(Xid{uuid, event.data});
    }
    return xids;
  }

 private:
  // Cards and drivers without such events are watched by CheckHealth alone.
  void WatchForXids() {
    if (f_.EventSetCreate == nullptr || f_.EventSetFree == nullptr ||
        f_.DeviceRegisterEvents == nullptr || f_.EventSetWait == nullptr ||
        f_.EventSetCreate(&events_) != abi::kSuccess) {
      events_ = nullptr;
      return;
    }
    unsigned count = 0;
    if (f_.DeviceGetCount(&count) != abi::kSuccess) return;
    for (unsigned i = 0; i < std::min(count, kMaxDevices); ++i) {
      abi::Device device = nullptr;
      if (f_.DeviceGetHandleByIndex(i, &device) != abi::kSuccess) continue;
      f_.DeviceRegisterEvents(device, abi::kEventXidCritical, events_);
    }
  }

  Status Check(abi::Return rc, std::string_view what) const {
    if (rc == abi::kSuccess) return Ok();
    const char* text = f_.ErrorString(rc);
    return Error{CodeOf(rc), std::string(what) + ": " + (text == nullptr ? "unknown error" : text) +
                                 " (NVML " + std::to_string(rc) + ")"};
  }

  Result<abi::Device> HandleOf(const std::string& uuid) const {
    abi::Device device = nullptr;
    KRUX_RETURN_IF_ERROR(
        Check(f_.DeviceGetHandleByUUID(uuid.c_str(), &device), "looking for " + uuid));
    return device;
  }

  // A card with MIG is left out as a whole: its memory belongs to instances, and a share of the
  // card next to them would be a promise that nobody can keep.
  Status CheckMig(abi::Device device) const {
    unsigned current = 0;
    unsigned pending = 0;
    if (f_.DeviceGetMigMode == nullptr) return Ok();
    const abi::Return rc = f_.DeviceGetMigMode(device, &current, &pending);
    if (rc == abi::kNotSupported) return Ok();
    KRUX_RETURN_IF_ERROR(Check(rc, "reading its MIG mode"));
    if (current == 0) return Ok();
    return Error{
        ErrorCode::kFailedPrecondition,
        "MIG mode is on; Krux shares whole cards: switch MIG off on this card, or offer its "
        "instances with another device plugin"};
  }

  // Memory errors are kept by the card, so a fault from before our start is seen as well.
  Status CheckRows(abi::Device device) const {
    unsigned correctable = 0;
    unsigned uncorrectable = 0;
    unsigned pending = 0;
    unsigned failed = 0;
    if (f_.DeviceGetRemappedRows == nullptr) return Ok();
    const abi::Return rc =
        f_.DeviceGetRemappedRows(device, &correctable, &uncorrectable, &pending, &failed);
    if (rc == abi::kNotSupported) return Ok();
    KRUX_RETURN_IF_ERROR(Check(rc, "reading its remapped memory rows"));
    if (failed != 0) {
      return Error{ErrorCode::kFailedPrecondition,
                   "a broken memory row could not be remapped: the card needs repair"};
    }
    if (pending != 0) {
      return Error{ErrorCode::kFailedPrecondition,
                   "a broken memory row waits to be remapped: the card needs a reset"};
    }
    return Ok();
  }

  Result<Device> Describe(unsigned index) const {
    abi::Device handle = nullptr;
    KRUX_RETURN_IF_ERROR(Check(f_.DeviceGetHandleByIndex(index, &handle), "opening it"));
    char uuid[abi::kUuidBytes] = {};
    char name[abi::kNameBytes] = {};
    abi::Memory memory{};
    Device device;
    KRUX_RETURN_IF_ERROR(
        Check(f_.DeviceGetUUID(handle, uuid, sizeof uuid - 1), "reading its UUID"));
    KRUX_RETURN_IF_ERROR(ParseGpuUuid(uuid));
    KRUX_RETURN_IF_ERROR(CheckMig(handle).With(uuid));
    KRUX_RETURN_IF_ERROR(
        Check(f_.DeviceGetName(handle, name, sizeof name - 1), "reading its name"));
    KRUX_RETURN_IF_ERROR(Check(f_.DeviceGetMemoryInfo(handle, &memory), "reading its memory"));
    KRUX_RETURN_IF_ERROR(
        Check(f_.DeviceGetMinorNumber(handle, &device.minor), "reading its minor number"));
    abi::PciInfo pci{};
    if (f_.DeviceGetPciInfo != nullptr && f_.DeviceGetPciInfo(handle, &pci) == abi::kSuccess) {
      pci.bus_id[sizeof pci.bus_id - 1] = '\0';
      device.pci_bus_id = pci.bus_id;
    }
    device.numa_node = NumaNodeOf(handle);
    device.uuid = uuid;
    device.model = name;
    device.memory_bytes = memory.total;
    return device;
  }

  // nvmlDeviceGetNumaNodeId is about cards that are NUMA nodes themselves, which few are.
  int NumaNodeOf(abi::Device handle) const {
    std::array<unsigned long, 16> nodes{};
    if (f_.DeviceGetMemoryAffinity == nullptr ||
        f_.DeviceGetMemoryAffinity(handle, nodes.size(), nodes.data(), abi::kAffinityOfNode) !=
            abi::kSuccess) {
      return -1;
    }
    constexpr int kBits = 8 * sizeof nodes[0];
    for (size_t word = 0; word < nodes.size(); ++word) {
      if (nodes[word] != 0) return static_cast<int>(word) * kBits + std::countr_zero(nodes[word]);
    }
    return -1;
  }

  // P2P status and not the links' other ends: on boards with switches these are the switches.
  void FindLinks(std::vector<Device>* devices) const {
    if (f_.DeviceGetP2PStatus == nullptr) return;
    std::vector<abi::Device> handles;
    for (const Device& device : *devices) {
      const auto handle = HandleOf(device.uuid);
      if (!handle) return;  // a card has just gone: the next look tells
      handles.push_back(*handle);
    }
    for (size_t i = 0; i < handles.size(); ++i) {
      for (size_t k = 0; k < handles.size(); ++k) {
        int status = -1;
        const bool linked = i != k &&
                            f_.DeviceGetP2PStatus(handles[i], handles[k], abi::kP2pNvlink,
                                                  &status) == abi::kSuccess &&
                            status == abi::kP2pOk;
        if (linked) (*devices)[i].linked_to.push_back((*devices)[k].uuid);
      }
    }
  }

  const abi::Functions f_;
  abi::EventSet events_ = nullptr;
};

}  // namespace

bool IsCardFault(unsigned long long xid) {
  switch (xid) {
    case 13:   // exception in a kernel
    case 31:   // page fault of a program
    case 43:   // a program's channel was reset
    case 45:   // a program was ended
    case 68:   // exception of the video engine
    case 109:  // context switch timed out: a kernel that never ends
      return false;
    default:
      return true;
  }
}

Result<std::unique_ptr<Nvml>> OpenNvml(const std::string& path) {
  // Never unloaded: the vendor's library keeps threads and locks of its own.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return Error{ErrorCode::kNotFound, "loading NVML: " + std::string(dlerror())};
  }
  abi::Functions functions{};
  if (const char* missing = FindAll(library, functions); missing != nullptr) {
    return Error{ErrorCode::kFailedPrecondition,
                 path + " lacks " + missing + ": the driver is older than Krux supports (535)"};
  }
  if (const abi::Return rc = functions.Init(); rc != abi::kSuccess) {
    const char* text = functions.ErrorString(rc);
    return Error{CodeOf(rc) == ErrorCode::kPermissionDenied ? ErrorCode::kPermissionDenied
                                                            : ErrorCode::kUnavailable,
                 "starting NVML of " + path + ": " + (text == nullptr ? "unknown error" : text)};
  }
  return std::unique_ptr<Nvml>(std::make_unique<LoadedNvml>(functions));
}

}  // namespace krux::gpu
