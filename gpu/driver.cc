#include "gpu/driver.h"

#include <sys/stat.h>
#include <cstdlib>

#include <algorithm>
#include <filesystem>

#include "gpu/library_folders.h"

namespace krux::gpu {
namespace {

constexpr char kCuda[] = "libcuda.so.1";
constexpr char kNvml[] = "libnvidia-ml.so.1";
constexpr char kControlNode[] = "/dev/nvidiactl";

// What a CUDA program loads from the driver, by the start of the file's name. Everything else of
// the driver (graphics, video, monitoring) stays on the host.
constexpr std::string_view kDriverFiles[] = {
    "libcuda.so",         "libnvidia-ml.so",       "libnvidia-ptxjitcompiler.so",
    "libnvidia-nvvm.so",  "libnvidia-nvvm70.so",   "libnvidia-gpucomp.so",
    "libcudadebugger.so", "libnvidia-tileiras.so",
};

bool Exists(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0;
}

bool StartsWithAny(std::string_view name) {
  return std::any_of(std::begin(kDriverFiles), std::end(kDriverFiles),
                     [&](std::string_view prefix) {
                       // "libcuda.so" and "libcuda.so.1", but not "libcuda.so.580.65.06": that is
                       // the target of both.
                       return name.starts_with(prefix) &&
                              (name.size() == prefix.size() || name[prefix.size()] == '.');
                     });
}

// A link's target under another name adds nothing: libcuda.so.580.65.06 is left out because
// libcuda.so.1 points at it, libnvidia-gpucomp.so.580.65.06 stays because nothing does.
std::vector<std::string> DriverFilesIn(const std::string& root, const std::string& folder) {
  std::vector<std::string> links;
  std::vector<std::string> files;
  std::vector<std::string> targets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + folder, error)) {
    const std::string name = entry.path().filename();
    if (!StartsWithAny(name)) continue;
    if (entry.is_symlink(error)) {
      targets.push_back(std::filesystem::read_symlink(entry.path(), error).filename());
      links.push_back(folder + "/" + name);
    } else if (entry.is_regular_file(error)) {
      files.push_back(name);
    }
  }
  for (const std::string& name : files) {
    if (std::find(targets.begin(), targets.end(), name) == targets.end()) {
      links.push_back(folder + "/" + name);
    }
  }
  std::sort(links.begin(), links.end());
  return links;
}

// The folder of the driver: the first that has both libraries.
Result<std::string> FindDriverFolder(const std::string& root) {
  const std::vector<std::string> folders = LibraryFolders(root);
  for (const std::string& folder : folders) {
    if (Exists(root + folder + "/" + kCuda) && Exists(root + folder + "/" + kNvml)) return folder;
  }
  return Error{ErrorCode::kNotFound, std::string("no folder of the loader holds both ") + kCuda +
                                         " and " + kNvml +
                                         ": install the NVIDIA driver (535 or newer)"};
}

Status CheckListsCard(const std::string& library, const NvmlOpener& open, std::string& version) {
  KRUX_ASSIGN_OR_RETURN(const std::unique_ptr<Nvml> nvml, open(library));
  KRUX_ASSIGN_OR_RETURN(const DeviceList list, nvml->ListDevices());
  if (list.devices.empty() && list.left_out.empty()) {
    return Error{ErrorCode::kNotFound, "NVML lists no GPU"};
  }
  KRUX_ASSIGN_OR_RETURN(version, nvml->DriverVersion());
  return Ok();
}

Result<Driver> ResolveNvidia(const DriverOptions& options, const NvmlOpener& open) {
  if (!Exists(options.root + kControlNode)) {
    return Error{ErrorCode::kNotFound,
                 std::string(kControlNode) + " does not exist: the NVIDIA driver is not loaded"};
  }
  KRUX_ASSIGN_OR_RETURN(const std::string folder, FindDriverFolder(options.root));
  Driver driver;
  driver.kind = DriverKind::kNvidia;
  driver.nvml_library = options.root + folder + "/" + kNvml;
  std::string version;
  KRUX_RETURN_IF_ERROR(CheckListsCard(driver.nvml_library, open, version));
  driver.reason = "NVIDIA driver " + version + " in " + folder;
  driver.files = DriverFilesIn(options.root, folder);
  for (const char* node : {kControlNode, "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}) {
    if (Exists(options.root + node)) driver.common_nodes.emplace_back(node);
  }
  if (Exists(options.root + "/usr/bin/nvidia-smi")) {
    driver.mounts.push_back({"/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi", true});
  }
  driver.library_folders = {folder};
  return driver;
}

Result<Driver> ResolveSim(const DriverOptions& options) {
  Driver driver;
  driver.kind = DriverKind::kSim;
  for (const char* name : {kCuda, kNvml}) {
    const std::string path = options.sim_libraries + "/" + name;
    if (options.sim_libraries.empty() || !Exists(options.root + path)) {
      return Error{ErrorCode::kNotFound,
                   "the simulated card needs " + path + ": name its folder with --sim-libraries"};
    }
    driver.files.push_back(path);
  }
  driver.reason = "simulated card of " + options.sim_libraries;
  driver.nvml_library = options.root + options.sim_libraries + "/" + kNvml;
  driver.sim_folder = options.sim_folder;
  driver.library_folders = {options.sim_libraries};
  return driver;
}

Driver NoDriver(std::string reason) {
  Driver driver;
  driver.reason = std::move(reason);
  return driver;
}

Result<Driver> ResolveAuto(const DriverOptions& options, const NvmlOpener& open) {
  Result<Driver> real = ResolveNvidia(options, open);
  if (real) return real;
  if (options.sim_libraries.empty()) return NoDriver(real.error().message);
  Result<Driver> sim = ResolveSim(options);
  if (sim) return sim;
  return NoDriver(real.error().message + "; " + sim.error().message);
}

}  // namespace

Result<DriverMode> ParseDriverMode(std::string_view word) {
  if (word == "auto") return DriverMode::kAuto;
  if (word == "nvidia") return DriverMode::kNvidia;
  if (word == "sim") return DriverMode::kSim;
  if (word == "none") return DriverMode::kNone;
  return Error{ErrorCode::kInvalidArgument,
               "GPU driver '" + std::string(word) + "' is not one of auto, nvidia, sim, none"};
}

std::string_view DriverKindName(DriverKind kind) {
  switch (kind) {
    case DriverKind::kNone:
      return "none";
    case DriverKind::kNvidia:
      return "nvidia";
    case DriverKind::kSim:
      return "sim";
  }
  return "none";
}

std::vector<std::string> Driver::NodesOf(const Device& device) const {
  if (kind != DriverKind::kNvidia) return {};
  std::vector<std::string> nodes = common_nodes;
  nodes.push_back("/dev/nvidia" + std::to_string(device.minor));
  return nodes;
}

std::vector<api::Mount> Driver::MountsOf(const Device& device) const {
  std::vector<api::Mount> all = mounts;
  if (kind != DriverKind::kSim) return all;
  for (const std::string& file : {std::string("state"), "card" + std::to_string(device.minor)}) {
    all.push_back({sim_folder + "/" + file, std::string(kSimFolder) + "/" + file, false});
  }
  return all;
}

Result<Driver> ResolveDriver(const DriverOptions& options, const NvmlOpener& open) {
  switch (options.mode) {
    case DriverMode::kAuto:
      return ResolveAuto(options, open);
    case DriverMode::kNvidia:
      return ResolveNvidia(options, open);
    case DriverMode::kSim:
      return ResolveSim(options);
    case DriverMode::kNone:
      return NoDriver("no GPU driver was asked for");
  }
  return NoDriver("no GPU driver was asked for");
}

Result<std::unique_ptr<Nvml>> OpenDriver(const Driver& driver, const NvmlOpener& open) {
  if (driver.kind == DriverKind::kNone) return Error{ErrorCode::kNotFound, driver.reason};
  if (driver.kind == DriverKind::kSim) {
    // Once only: other threads may read the environment by the time NVML is opened again.
    const char* now = getenv(kSimFolderVariable);
    if (now == nullptr || driver.sim_folder != now) {
      setenv(kSimFolderVariable, driver.sim_folder.c_str(), 1);
    }
  }
  return open(driver.nvml_library);
}

}  // namespace krux::gpu
