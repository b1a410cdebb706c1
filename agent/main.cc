// krux-agent: one daemon a node. Holds the grants, owns the accounts and the GPU time, answers the
// runtime, the device plugin's gate and `krux run`. See agent.h for how it works.
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <string>
#include <utility>

#include "agent/agent.h"
#include "agent/kubelet_pods.h"
#include "common/file.h"
#include "common/log.h"
#include "protocol/names.h"

namespace krux::agent {
namespace {

struct Flags {
  std::string node;
  std::string run_folder = names::kRunFolder;
  std::string state_folder = names::kStateFolder;
  std::string kubelet_folder = "/var/lib/kubelet";
  std::string limiter;
  std::string gpu = "auto";
  std::string sim_libraries;
  std::string sim_folder = gpu::kSimFolder;
  std::string pod_source = "kubelet";
  std::string log_level = "info";
  std::string over_limit = "end";
  bool local = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--node", flags.node, "name of this node, as Kubernetes has it");
  app.add_option("--run-folder", flags.run_folder, "sockets and pages of containers")
      ->capture_default_str();
  app.add_option("--state-folder", flags.state_folder, "the ledger")->capture_default_str();
  app.add_option("--kubelet-folder", flags.kubelet_folder, "the kubelet's root")
      ->capture_default_str();
  app.add_option("--limiter", flags.limiter, "libkrux.so on this host")->required();
  app.add_option("--gpu", flags.gpu, "driver to use: auto, nvidia, sim or none")
      ->capture_default_str();
  app.add_option("--sim-libraries", flags.sim_libraries,
                 "folder with the simulated libcuda.so.1 and libnvidia-ml.so.1");
  app.add_option("--sim-folder", flags.sim_folder, "state of the simulated card")
      ->capture_default_str();
  app.add_option("--pod-source", flags.pod_source,
                 "where pods are learnt of: kubelet (its Pods API, Kubernetes 1.37 and newer)")
      ->capture_default_str();
  app.add_option("--over-limit", flags.over_limit,
                 "what happens to a container that holds more GPU memory than its limit by the "
                 "driver's figures: end (its processes on that GPU) or report")
      ->check(CLI::IsMember({"end", "report"}))
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "debug, info, warn or error")
      ->capture_default_str();
  app.add_flag("--local", flags.local,
               "no kubelet: serves `krux run` and ends when its last client has gone");
}

Status Check(const Flags& flags) {
  const auto wrong = [](const std::string& text) {
    return Error{ErrorCode::kInvalidArgument, text};
  };
  if (!flags.local && flags.node.empty()) return wrong("--node is needed (or --local)");
  if (flags.pod_source != "kubelet") {
    return wrong("--pod-source " + flags.pod_source +
                 ": only 'kubelet' is there; a watch at the API server, for kubelets older than "
                 "1.37, is not built yet");
  }
  if (access(flags.limiter.c_str(), R_OK) != 0) {
    return ErrnoError(errno, "--limiter " + flags.limiter);
  }
  return Ok();
}

Result<CardWatch::Probe> MakeProbe(const Flags& flags) {
  gpu::DriverOptions options;
  KRUX_ASSIGN_OR_RETURN(options.mode, gpu::ParseDriverMode(flags.gpu));
  options.sim_libraries = flags.sim_libraries;
  options.sim_folder = flags.sim_folder;
  return CardWatch::Probe([options]() -> Result<CardWatch::Found> {
    CardWatch::Found found;
    KRUX_ASSIGN_OR_RETURN(found.driver, gpu::ResolveDriver(options));
    if (found.driver.kind == gpu::DriverKind::kNone) return found;
    KRUX_ASSIGN_OR_RETURN(auto nvml, gpu::OpenDriver(found.driver));
    found.nvml = std::move(nvml);
    return found;
  });
}

// SIGTERM and SIGINT end the loop; leases end in the pages, containers go on.
Status StopOnSignals(EventLoop& loop, UniqueFd* fd) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (pthread_sigmask(SIG_BLOCK, &signals, nullptr) != 0) return ErrnoError(errno, "signals");
  fd->Reset(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd->valid()) return ErrnoError(errno, "signals");
  return loop.Watch(fd->get(), [&loop] { loop.Stop(); });
}

// Each container needs some descriptors, each of its processes two.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Status RunAgent(const Flags& flags) {
  KRUX_RETURN_IF_ERROR(Check(flags));
  umask(022);
  RaiseDescriptorLimit();
  // Messages about leases come through this thread; a busy host must not delay them. May be
  // refused.
  setpriority(PRIO_PROCESS, 0, -10);
  KRUX_ASSIGN_OR_RETURN(const std::unique_ptr<EventLoop> loop, EventLoop::Make());
  UniqueFd signals;
  KRUX_RETURN_IF_ERROR(StopOnSignals(*loop, &signals));
  Agent::Parts parts;
  KRUX_ASSIGN_OR_RETURN(parts.probe, MakeProbe(flags));
  KRUX_ASSIGN_OR_RETURN(parts.leases, LeaseService::Start(Arbiter::Options{}));
  parts.loop = loop.get();
  Agent::Options options;
  options.node = flags.local ? "local" : flags.node;
  options.run_folder = flags.run_folder;
  options.limiter_path = flags.limiter;
  options.exit_when_idle = flags.local;
  options.over_limit = flags.over_limit == "end" ? OverLimitPolicy::kEnd : OverLimitPolicy::kReport;
  if (!flags.local) {
    KRUX_RETURN_IF_ERROR(MakeDirectories(flags.state_folder, 0700));
    options.ledger_path = flags.state_folder + "/ledger";
    parts.pods = MakeKubeletPods(flags.kubelet_folder);
    parts.owners = MakeKubeletDeviceOwners(flags.kubelet_folder);
  }
  KRUX_ASSIGN_OR_RETURN(std::unique_ptr<Agent> agent,
                        Agent::Start(std::move(options), std::move(parts)));
  KRUX_LOG_INFO("agent ready node={} run_folder={}", flags.node, flags.run_folder);
  loop->Run();
  KRUX_LOG_INFO("agent ends");
  agent.reset();
  return Ok();
}

}  // namespace
}  // namespace krux::agent

int main(int argc, char** argv) {
  krux::agent::Flags flags;
  CLI::App app("Krux node agent");
  krux::agent::AddFlags(app, flags);
  app.set_version_flag("--version", KRUX_VERSION);
  CLI11_PARSE(app, argc, argv);
  auto status = krux::InitLog("krux-agent", flags.log_level);
  if (status) status = krux::agent::RunAgent(flags);
  if (status) return 0;
  fprintf(stderr, "krux-agent: %s\n", status.error().ToString().c_str());
  return 1;
}
