// Which GPU driver this node uses, and which of its files a container needs: the vendor's driver,
// the simulated card, or none.
//
// Who calls it: the agent and the device plugin, at start and again while no driver was found.
// Thread rule: functions without state, except that OpenDriver for the simulated card sets
// KRUX_SIM_FOLDER: call it before other threads read the environment.
#ifndef KRUX_GPU_DRIVER_H_
#define KRUX_GPU_DRIVER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "gpu/nvml.h"
#include "protocol/agent_api.h"

namespace krux::gpu {

inline constexpr char kSimFolder[] = "/run/krux-sim";  // default on the host, fixed in a container
inline constexpr char kSimFolderVariable[] = "KRUX_SIM_FOLDER";

enum class DriverMode { kAuto, kNvidia, kSim, kNone };
Result<DriverMode> ParseDriverMode(std::string_view word);  // "auto" | "nvidia" | "sim" | "none"

struct DriverOptions {
  DriverMode mode = DriverMode::kAuto;
  std::string sim_libraries;  // folder of the simulated libcuda.so.1; empty: no simulation
  std::string sim_folder = kSimFolder;
  std::string root;  // where the host's file system is seen; empty: at /
};

enum class DriverKind { kNone, kNvidia, kSim };
std::string_view DriverKindName(DriverKind kind);  // "none" | "nvidia" | "sim"

struct Driver {
  DriverKind kind = DriverKind::kNone;
  std::string reason;        // why this one, or why none; for the log
  std::string nvml_library;  // to be loaded by this process; empty when there is none

  // What goes into every container that has a GPU (api::CreateAnswer has the same fields). Host
  // paths, without `root`. A driver file's own name is the name it needs in the container; it may
  // be a symbolic link, which a bind mount follows.
  std::vector<std::string> files;
  std::vector<std::string> common_nodes;  // /dev/nvidiactl, /dev/nvidia-uvm, ... that exist
  std::vector<api::Mount> mounts;         // other files: nvidia-smi
  std::string sim_folder;                 // of the simulated card; else empty

  // Folder of the libraries, when programs must be told (`krux run` on the simulated card).
  std::vector<std::string> library_folders;

  // The nodes of a container with exactly this card: common ones and /dev/nvidia<minor>. None for
  // the simulated card.
  std::vector<std::string> NodesOf(const Device& device) const;
  // The mounts of a container with exactly this card: those above, and of the simulated card its
  // state and the file that stands for its device node, so that no other card is seen.
  std::vector<api::Mount> MountsOf(const Device& device) const;
};

using NvmlOpener = std::function<Result<std::unique_ptr<Nvml>>(const std::string& path)>;

// auto: the vendor's driver when /dev/nvidiactl exists and NVML loads and lists a card; else the
// simulated card when its libraries are named; else none. nvidia and sim: that one or an error
// that says what is missing. kNone with a reason is a value, not an error.
Result<Driver> ResolveDriver(const DriverOptions& options, const NvmlOpener& open = OpenNvml);

// NVML of a resolved driver. For the simulated card the folder is put into the environment first.
// kNone: kNotFound with the driver's reason.
Result<std::unique_ptr<Nvml>> OpenDriver(const Driver& driver, const NvmlOpener& open = OpenNvml);

}  // namespace krux::gpu

#endif  // KRUX_GPU_DRIVER_H_
