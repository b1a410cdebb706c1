// krux-device-plugin: slots for the kubelet, the gate, the node's cards, and the descriptor store.
// A small process that outlives restarts of the agent. See main() for the whole of it.
#include <curl/curl.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <thread>

#include "common/file.h"
#include "common/log.h"
#include "device_plugin/api_server.h"
#include "device_plugin/gpu_watcher.h"
#include "device_plugin/inventory_record.h"
#include "device_plugin/node_publisher.h"
#include "device_plugin/registrar.h"
#include "device_plugin/slot_board.h"
#include "device_plugin/store_server.h"
#include "protocol/names.h"

namespace krux::device_plugin {
namespace {

struct Flags {
  std::string node;
  std::string run_folder = names::kRunFolder;
  std::string state_folder = names::kStateFolder;
  std::string plugins_folder = "/var/lib/kubelet/device-plugins";
  std::string gpu = "auto";
  gpu::DriverOptions driver;
  int slots_per_gpu = 16;
  int quiet_seconds = 30;
  ApiServer::Options api;
  std::string log_level = "info";
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", KRUX_VERSION);
  app.add_option("--node", flags.node, "Name of this node in Kubernetes")->required();
  app.add_option("--run-folder", flags.run_folder, "Folder of the agent's and the plugin's sockets")
      ->capture_default_str();
  app.add_option("--state-folder", flags.state_folder, "Folder of what must outlive a reboot")
      ->capture_default_str();
  app.add_option("--kubelet-plugins-folder", flags.plugins_folder, "Folder of kubelet.sock")
      ->capture_default_str();
  app.add_option("--gpu", flags.gpu, "GPU driver: auto, nvidia, sim or none")
      ->capture_default_str();
  app.add_option("--sim-libraries", flags.driver.sim_libraries,
                 "Folder of the simulated card's libraries");
  app.add_option("--sim-folder", flags.driver.sim_folder, "Folder of the simulated card's state")
      ->capture_default_str();
  app.add_option("--slots-per-gpu", flags.slots_per_gpu, "Containers that one card can take")
      ->check(CLI::Range(1, kMaxSlotsPerGpu))
      ->capture_default_str();
  app.add_option("--healthy-after", flags.quiet_seconds,
                 "Seconds without a fault until a card counts as healthy again")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  auto* apiserver = app.add_option("--apiserver", flags.api.url,
                                   "URL of the API server; without it no KruxNode is published");
  app.add_option("--ca-file", flags.api.ca_file, "Certificate authority of the API server")
      ->needs(apiserver);
  app.add_option("--token-file", flags.api.token_file, "Bearer token, read again for each request")
      ->needs(apiserver);
  app.add_option("--log-level", flags.log_level, "debug, info, warn or error")
      ->capture_default_str();
}

Status Check(Flags& flags) {
  KRUX_RETURN_IF_ERROR(InitLog("krux-device-plugin", flags.log_level));
  KRUX_RETURN_IF_ERROR(CheckNodeName(flags.node));
  KRUX_ASSIGN_OR_RETURN(flags.driver.mode, gpu::ParseDriverMode(flags.gpu));
  KRUX_RETURN_IF_ERROR(MakeDirectories(flags.state_folder, 0700));
  return MakeDirectories(flags.run_folder, 0755);
}

// Signals end the process through a descriptor; blocked before any thread starts.
UniqueFd StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC));
}

// The record only shortens the time after a start in which slots are missing. Simulated cards need
// none: they are there at once.
KnownCards LoadKnownCards(const std::string& path, gpu::DriverMode mode) {
  if (mode == gpu::DriverMode::kSim || mode == gpu::DriverMode::kNone) return {};
  Result<KnownCards> known = LoadRecord(path);
  if (known) return std::move(*known);
  KRUX_LOG_WARN("going on without it: {}", known.error().ToString());
  return {};
}

void SaveKnownCards(const std::string& path, const Inventory& inventory, gpu::DriverKind kind) {
  if (kind != gpu::DriverKind::kNvidia) return;
  const Status saved = SaveRecord(path, inventory);
  if (!saved) KRUX_LOG_WARN("the record of the cards was not saved: {}", saved.error().ToString());
}

Status Run(const Flags& flags) {
  const UniqueFd stop = StopSignals();
  KRUX_ASSIGN_OR_RETURN(const auto store,
                        StoreServer::Start(flags.run_folder + "/" + names::kPluginSocket));
  SlotBoard board;
  NodePublisher publisher(
      {.node = flags.node},
      [server = ApiServer(flags.api)](const std::string& path, const std::string& json) {
        return server.Apply(path, json);
      });
  const std::string record = flags.state_folder + "/" + kInventoryFile;
  GpuWatcher watcher({.probe = {.driver = flags.driver},
                      .known = LoadKnownCards(record, flags.driver.mode),
                      .quiet = flags.quiet_seconds * kSecond},
                     [&](const Inventory& inventory, gpu::DriverKind kind) {
                       board.Set(SlotsOf(inventory, flags.slots_per_gpu));
                       publisher.Publish(inventory);
                       SaveKnownCards(record, inventory, kind);
                     });
  watcher.Start(MonotonicNow());
  const std::jthread watching([&](const std::stop_token& token) { watcher.Run(token); });
  std::jthread publishing;
  if (!flags.api.url.empty()) {
    publishing = std::jthread([&](const std::stop_token& token) { publisher.Run(token); });
  }
  Registrar registrar(board,
                      {.folder = flags.plugins_folder,
                       .service = {.agent_socket = flags.run_folder + "/" + names::kAgentSocket},
                       .may_register = [&] { return store->OwnsSocket(); }});
  registrar.Run(stop.get());
  return Ok();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Offers this node's GPUs to the kubelet as slots of krux.io/gpu");
  AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  curl_global_init(CURL_GLOBAL_DEFAULT);
  Status done = Check(flags);
  if (done) done = Run(flags);
  if (done) return 0;
  std::fprintf(stderr, "krux-device-plugin: %s\n", done.error().ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace krux::device_plugin

int main(int argc, char** argv) {
  try {
    return krux::device_plugin::Main(argc, argv);
  } catch (const std::exception& error) {  // of a library: threads or memory have run out
    std::fprintf(stderr, "krux-device-plugin: %s\n", error.what());
    return 1;
  }
}
