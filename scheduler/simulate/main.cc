// krux-simulate: how well the policies pack, on public traces and on one's own cluster.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "common/file.h"
#include "scheduler/simulate/own_cluster.h"
#include "scheduler/simulate/replay.h"
#include "scheduler/simulate/report.h"
#include "scheduler/simulate/study.h"
#include "scheduler/simulate/trace.h"

namespace {

using krux::Result;
using krux::Status;
namespace sim = krux::simulate;

struct Options {
  std::string data;
  std::vector<std::string> traces = {"default"};
  std::vector<std::string> policies = {"fragmentation", "binpack", "spread", "fgd", "bestfit"};
  int seeds = 10;
  std::string mix = "trace";
  std::string ties = "first";
  std::string look = "all";
  int node_order = 0;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  std::string plot;
  std::string record;
  std::string command;
  double speed = 1000;
  std::string cluster_file;
};

// In a checkout: build/<preset>/bin/krux-simulate beside scheduler/simulate/data.
std::string DataFolder() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "../../../scheduler/simulate/data").lexically_normal().string();
}

void ShowProgress(size_t done, size_t all) {
  constexpr size_t kWidth = 40;
  if (isatty(STDERR_FILENO) == 0) return;
  const size_t filled = done * kWidth / all;
  std::cerr << fmt::format("\r[{:<{}}] {}/{}", std::string(filled, '#'), kWidth, done, all)
            << (done == all ? "\n" : "") << std::flush;
}

// What kube-scheduler looks at by default: 50 % less one for each 125 nodes, 5 % at least.
double KubeSchedulersPart(size_t nodes) {
  return std::max(5.0, 50 - static_cast<double>(nodes) / 125) / 100;
}

Result<sim::StudyPlan> PlanOf(const Options& options, const sim::Traces& traces) {
  sim::StudyPlan plan;
  plan.traces = options.traces;
  if (plan.traces == std::vector<std::string>{"all"}) {
    plan.traces.clear();
    for (const auto& [name, trace] : traces.traces) plan.traces.push_back(name);
  }
  plan.policies = options.policies;
  plan.seeds = options.seeds;
  plan.jobs = options.jobs;
  plan.node_order = options.node_order;
  plan.setting.knowledge =
      options.mix == "learnt" ? sim::Knowledge::kLearnt : sim::Knowledge::kWholeTrace;
  plan.setting.disturbance.random_ties = options.ties == "random";
  if (options.look == "kube") {
    plan.setting.disturbance.looked_at = KubeSchedulersPart(traces.nodes.size());
  }
  return plan;
}

Status WriteText(const std::string& path, const std::string& text, std::ios::openmode mode) {
  std::ofstream file(path, mode);
  file << text;
  file.flush();
  if (file) return krux::Ok();
  return krux::Error(krux::ErrorCode::kUnavailable, "cannot write " + path);
}

Status Record(const Options& options, const sim::Traces& traces, const sim::StudyPlan& plan,
              const sim::Cells& cells) {
  if (options.record.empty()) return krux::Ok();
  const std::filesystem::path file(options.record);
  const std::string machine = file.parent_path().filename().string();
  return WriteText(options.record, sim::JsonLines(traces, plan, cells, machine, options.command),
                   std::ios::app);
}

Status Replay(const Options& options) {
  KRUX_ASSIGN_OR_RETURN(const sim::Traces traces, sim::ReadTraces(options.data));
  KRUX_ASSIGN_OR_RETURN(const sim::StudyPlan plan, PlanOf(options, traces));
  KRUX_ASSIGN_OR_RETURN(const sim::Cells cells, sim::RunStudy(traces, plan, ShowProgress));
  const std::string differences = sim::DifferencesOf(plan);
  if (!differences.empty()) std::cout << "Not as published: " << differences << ".\n\n";
  std::cout << sim::TableOf(traces, plan, cells);
  if (!options.plot.empty()) {
    KRUX_RETURN_IF_ERROR(
        WriteText(options.plot, sim::PlotOf(plan, cells, plan.traces[0]), std::ios::out));
  }
  return Record(options, traces, plan, cells);
}

Status Times(const Options& options) {
  KRUX_ASSIGN_OR_RETURN(const sim::Traces traces, sim::ReadTraces(options.data));
  const sim::Trace& trace = traces.traces.at("default");
  std::cout << fmt::format(
      "Trace default with departures, arrivals {:.0f} times as close.\n\n"
      "| policy | GPUs in use, mean % | pods lost, % | demand lost, % |\n"
      "|---|---|---|---|\n",
      options.speed);
  for (const std::string& policy : options.policies) {
    sim::Setting setting;
    setting.policy = policy;
    if (options.mix == "learnt") setting.knowledge = sim::Knowledge::kLearnt;
    setting.disturbance.random_ties = options.ties == "random";
    KRUX_ASSIGN_OR_RETURN(const auto chooser, sim::MakeChooser(setting, traces.nodes, trace));
    const sim::Departures d =
        sim::ReplayTimes(traces.nodes, trace, traces.default_times, options.speed, chooser.get());
    std::cout << fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} |\n", policy, d.mean_allocated,
                             d.failed_pods, d.failed_demand);
  }
  return krux::Ok();
}

Status OwnCluster(const Options& options) {
  KRUX_ASSIGN_OR_RETURN(const sim::OwnCluster cluster, sim::ReadOwnCluster(options.cluster_file));
  std::cout << sim::AdviceFor(cluster);
  return krux::Ok();
}

void AddReplayOptions(CLI::App* app, Options* o) {
  app->add_option("--policies", o->policies,
                  "fragmentation, binpack, spread (Krux's), fgd, "
                  "bestfit, random (published, for comparison)")
      ->delimiter(',');
  app->add_option("--mix", o->mix,
                  "what is known of the pods to come: the whole trace, as in the "
                  "published experiment, or only what has arrived")
      ->check(CLI::IsMember({"trace", "learnt"}));
  app->add_option("--ties", o->ties, "among nodes of equal score")
      ->check(CLI::IsMember({"first", "random"}));
}

int Fail(const Status& status) {
  if (status) return 0;
  std::cerr << "krux-simulate: " << status.error().ToString() << "\n";
  return 1;
}

int Run(int argc, char** argv) {
  Options o;
  o.data = DataFolder();
  o.command = "scripts/simulate";
  for (int i = 1; i < argc; ++i) o.command += std::string(" ") + argv[i];
  CLI::App app("How well placement policies pack GPUs, on public traces and on your own cluster");
  app.require_subcommand(1);
  app.add_option("--data", o.data, "folder of the traces")->capture_default_str();
  auto* replay = app.add_subcommand("replay", "pods arrive until 130 % of the GPUs are asked for");
  AddReplayOptions(replay, &o);
  replay->add_option("--traces", o.traces, "names, or all")->delimiter(',');
  replay->add_option("--seeds", o.seeds, "42, 43, ...")->check(CLI::Range(1, 1000));
  replay->add_option("--look", o.look, "at all nodes, or at the part that kube-scheduler looks at")
      ->check(CLI::IsMember({"all", "kube"}));
  replay->add_option("--node-order", o.node_order, "shuffle the nodes with this seed");
  replay->add_option("--jobs", o.jobs, "threads")->check(CLI::Range(1U, 256U));
  replay->add_option("--plot", o.plot, "write an SVG of the first trace");
  replay->add_option("--record", o.record, "append results to bench/results/MACHINE/NAME.jsonl");
  auto* times = app.add_subcommand("times", "pods come and go at the trace's own times");
  AddReplayOptions(times, &o);
  times->add_option("--speed", o.speed, "arrivals so many times as close")
      ->check(CLI::Range(0.1, 1e6));
  auto* cluster = app.add_subcommand(
      "cluster", "what a policy would change on your cluster, and how many GPUs could go");
  cluster->add_option("file", o.cluster_file, "output of: kubectl get nodes,pods -A -o json")
      ->required();
  CLI11_PARSE(app, argc, argv);
  if (replay->parsed()) return Fail(Replay(o));
  if (times->parsed()) return Fail(Times(o));
  return Fail(OwnCluster(o));
}

}  // namespace

int main(int argc, char** argv) {
  // The libraries for options and files throw when memory or a file is not to be had.
  try {
    return Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "krux-simulate: %s\n", e.what());
    return 1;
  }
}
