// How long a scheduling decision takes: the best of many nodes, its GPUs, and the bookkeeping.
//
//   krux-bench-scheduling [--nodes 10000] [--decisions 200000] [--record
//   bench/results/M/scheduling.jsonl]
//
// Nodes of 8 GPUs. Pods are those of the public trace "default" (its 150 classes by how often each
// comes), with a share of memory and of time. The cluster is filled, then pods come and go at that
// level: each step ends random pods until there is room and places a new one. One thread. Samples
// during which the kernel gave the core to another process are left out; how many is printed.
//   decision   krux_cluster_choose and krux_cluster_set of the node that was chosen
//   release    krux_cluster_set when a pod ends
//   learning   krux_cluster_learn, called after a decision
//   idle work  krux_cluster_tend, called between decisions
//   new class  krux_cluster_choose for a class that has no row yet
// The digest tells whether two builds place all pods alike.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "scheduler/engine/krux_engine.h"
#include "scheduler/simulate/trace.h"

namespace {

using Clock = std::chrono::steady_clock;
namespace sim = krux::simulate;

constexpr uint64_t kCardMib = 143771;
constexpr size_t kGpusPerNode = 8;
constexpr uint64_t kNodeCpuMilli = 192000;
constexpr size_t kTended = 500;  // looks after each pod: two for each class
constexpr uint64_t kNodeMemoryMib = 1U << 21;

double MicrosSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double HeapMib() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / 1048576;
}

struct Times {
  std::vector<double> micros;
  void Add(double x) { micros.push_back(x); }
  double Mean() const {
    double sum = 0;
    for (const double x : micros) sum += x;
    return micros.empty() ? 0 : sum / static_cast<double>(micros.size());
  }
  double At(double quantile) {
    if (micros.empty()) return 0;
    const auto nth = static_cast<size_t>(quantile * static_cast<double>(micros.size() - 1));
    std::nth_element(micros.begin(), micros.begin() + static_cast<std::ptrdiff_t>(nth),
                     micros.end());
    return micros[nth];
  }
};

// How often the kernel took the core away.
int64_t Switches() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

struct Pod {
  krux_pod pod{};
  krux_container container{};
};

struct Placed {
  uint32_t node = 0;
  Pod pod;
  krux_placement placement{};
};

class Bench {
 public:
  Bench(size_t nodes, const sim::Traces& traces) : nodes_(nodes), random_(1) {
    const sim::Trace& trace = traces.traces.at("default");
    for (const uint32_t pod : trace.pods) {
      const sim::Request& r = trace.requests[pod];
      if (r.gpus > 0) pods_.push_back(PodOf(r));
    }
    krux_gpu gpu{};
    gpu.memory_mib = kCardMib;
    gpu.slots = 16;
    gpu.flags = KRUX_GPU_HEALTHY;
    for (Node& node : nodes_) {
      node.host = {kNodeCpuMilli, 0, kNodeMemoryMib, 0};
      node.gpus.fill(gpu);
    }
    for (uint32_t i = 0; i < nodes; ++i) Tell(i);
  }
  ~Bench() { krux_cluster_free(cluster_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Places pods until so much of the GPUs is taken.
  void Fill(double part) {
    while (Used() < part) {
      const Pod& pod = Draw();
      if (!Place(pod, nullptr)) return;
      // Rows are made anew when they are asked for: those of the new classes never are.
      krux_cluster_learn(cluster_, &pod.pod, &pod.container, 1);
    }
  }

  // Pods come and go. A decision counts also when no node was found.
  void Churn(size_t decisions, double part) {
    for (size_t i = 0; i < decisions; ++i) {
      while (Used() > part) {
        const auto start = Release();
        release.Add(start);
      }
      const Pod& pod = Draw();
      const int64_t switches = Switches();
      Place(pod, &decision);
      if (Switches() != switches) {
        decision.micros.pop_back();
        ++disturbed;
      }
      Learn(pod, &learning);
      const auto start = Clock::now();
      krux_cluster_tend(cluster_, kTended);
      idle.Add(MicrosSince(start));
      if (i % 1000 == 0) Progress(i, decisions);
    }
  }

  // Classes that differ from all others by a memory request of their own.
  void NewClasses(size_t count, Times* times) {
    for (size_t i = 0; i < count; ++i) {
      Pod pod = Draw();
      pod.container.memory_percent = 0;
      pod.container.memory_mib = 10007 + 97 * next_class_++;
      pod.container.cores = 10;
      pod.container.gpus = 1;
      uint32_t index = 0;
      krux_placement placement;
      krux_verdict verdict;
      const int64_t switches = Switches();
      const auto start = Clock::now();
      krux_cluster_choose(cluster_, &pod.pod, &pod.container, 1, &index, &placement, &verdict);
      const double micros = MicrosSince(start);
      if (Switches() == switches) times->Add(micros);
    }
  }

  // Heap that the cluster gives back: all that the engine keeps. The bench is over then.
  double EndAndMeasureMib() {
    const double before = HeapMib();
    krux_cluster_free(cluster_);
    cluster_ = nullptr;
    return before - HeapMib();
  }

  double Used() const { return used_gpus_ / static_cast<double>(nodes_.size() * kGpusPerNode); }

  Times decision, release, learning, idle;
  size_t disturbed = 0;
  uint64_t digest = 0xcbf29ce484222325;  // of all placements: alike = placed alike

 private:
  struct Node {
    krux_node host{};
    std::array<krux_gpu, kGpusPerNode> gpus{};
  };

  static Pod PodOf(const sim::Request& r) {
    Pod pod;
    pod.pod.cpu_milli = static_cast<uint64_t>(r.cpu_milli);
    pod.pod.memory_mib = static_cast<uint64_t>(r.memory_mib);
    pod.container.gpus = static_cast<uint32_t>(r.gpus);
    pod.container.cores = static_cast<uint32_t>(r.gpu_milli / 10);
    if (r.gpu_milli < sim::kWholeGpu) {
      pod.container.memory_mib = kCardMib * static_cast<uint64_t>(r.gpu_milli) / 1000;
    }
    return pod;
  }

  const Pod& Draw() { return pods_[random_() % pods_.size()]; }

  void Tell(uint32_t i) {
    krux_cluster_set(cluster_, i, &nodes_[i].host, nodes_[i].gpus.data(), kGpusPerNode);
  }

  bool Place(const Pod& pod, Times* times) {
    Placed placed;
    placed.pod = pod;
    krux_verdict verdict;
    auto start = Clock::now();
    const int code = krux_cluster_choose(cluster_, &pod.pod, &pod.container, 1, &placed.node,
                                         &placed.placement, &verdict);
    double micros = MicrosSince(start);
    if (code == KRUX_FITS) {
      Charge(placed, /*add=*/true);  // the caller's own books are not the engine's time
      start = Clock::now();
      Tell(placed.node);
      micros += MicrosSince(start);
    }
    if (times != nullptr) times->Add(micros);
    Digest(placed.node);
    if (code != KRUX_FITS) return false;
    for (uint32_t i = 0; i < placed.placement.count; ++i) Digest(placed.placement.gpu[i]);
    placed_.push_back(placed);
    return true;
  }

  double Release() {
    const size_t i = random_() % placed_.size();
    const Placed gone = placed_[i];
    placed_[i] = placed_.back();
    placed_.pop_back();
    Charge(gone, /*add=*/false);
    const auto start = Clock::now();
    Tell(gone.node);
    return MicrosSince(start);
  }

  void Learn(const Pod& pod, Times* times) {
    const auto start = Clock::now();
    const int changed = krux_cluster_learn(cluster_, &pod.pod, &pod.container, 1);
    if (times != nullptr) times->Add(MicrosSince(start));
    mixes += changed;
    // Rows are made anew in idle moments, as the plugin does it.
    while (changed != 0 && krux_cluster_tend(cluster_, SIZE_MAX) != 0) {
    }
  }

  void Charge(const Placed& placed, bool add) {
    Node& node = nodes_[placed.node];
    const auto sign = [add](auto* value, auto amount) {
      using Value = std::remove_pointer_t<decltype(value)>;
      *value = static_cast<Value>(add ? *value + amount : *value - amount);
    };
    sign(&node.host.used_cpu_milli, placed.pod.pod.cpu_milli);
    sign(&node.host.used_memory_mib, placed.pod.pod.memory_mib);
    const bool alone = placed.pod.container.cores == 100;
    for (uint32_t i = 0; i < placed.placement.count; ++i) {
      krux_gpu& gpu = node.gpus[placed.placement.gpu[i]];
      sign(&gpu.used_memory_mib, placed.placement.memory_mib[i]);
      sign(&gpu.used_cores, placed.pod.container.cores);
      sign(&gpu.used_slots, 1U);
      gpu.flags = KRUX_GPU_HEALTHY;
      if (alone && add) gpu.flags |= KRUX_GPU_EXCLUSIVE;
      used_gpus_ += (add ? 0.01 : -0.01) * placed.pod.container.cores;
    }
  }

  void Digest(uint32_t value) { digest = (digest ^ value) * 0x100000001b3; }

  static void Progress(size_t done, size_t all) {
    if (isatty(STDERR_FILENO) != 0) std::cerr << fmt::format("\r{:3} %", done * 100 / all);
  }

  krux_cluster* cluster_ = krux_cluster_new();
  std::vector<Node> nodes_;
  std::vector<Pod> pods_;
  std::vector<Placed> placed_;
  double used_gpus_ = 0;
  std::mt19937_64 random_;
  uint64_t next_class_ = 0;

 public:
  int mixes = 0;
};

struct Figure {
  std::string name;
  double value;
  std::string unit;
  std::string goal;
};

struct Results {
  std::vector<Figure> figures;
  uint64_t digest = 0;  // of the placements
};

Results Run(size_t nodes, size_t decisions, const sim::Traces& traces) {
  constexpr double kLevel = 0.93;
  constexpr size_t kNewClasses = 100;
  const bool large = nodes > 10000;
  const auto goal = [large](const char* text) { return std::string(large ? "" : text); };
  Bench bench(nodes, traces);
  Times half_full;
  Times full;
  bench.Fill(kLevel / 2);
  bench.NewClasses(kNewClasses, &half_full);
  bench.Fill(kLevel);
  bench.Churn(decisions / 4, kLevel);  // until rows and mix have settled
  bench.decision.micros.clear();
  bench.release.micros.clear();
  bench.learning.micros.clear();
  bench.idle.micros.clear();
  bench.mixes = 0;
  bench.Churn(decisions, kLevel);
  bench.NewClasses(kNewClasses, &full);
  const uint64_t digest = bench.digest;
  std::vector<Figure> figures = {
      {"decision p50", bench.decision.At(0.5), "us", goal("<= 2")},
      {"decision mean", bench.decision.Mean(), "us", goal("<= 5")},
      {"decision p99", bench.decision.At(0.99), "us", goal("<= 25")},
      {"decision p99.9", bench.decision.At(0.999), "us", goal("<= 100")},
      {"decision max", bench.decision.At(1), "us", ""},
      {"release mean", bench.release.Mean(), "us", ""},
      {"samples left out", static_cast<double>(bench.disturbed), "", ""},
      {"idle work mean", bench.idle.Mean(), "us", ""},
      {"learning mean", bench.learning.Mean(), "us", ""},
      {"learning p99.9", bench.learning.At(0.999), "us", ""},
      {"new class, half full, p50", half_full.At(0.5), "us", goal("<= 500")},
      {"new class, half full, max", half_full.At(1), "us", goal("<= 500")},
      {"new class, 93 % full, p50", full.At(0.5), "us", goal("<= 500")},
      {"new class, 93 % full, max", full.At(1), "us", goal("<= 500")},
      {"memory of the engine", bench.EndAndMeasureMib(), "MiB", goal("<= 32")},
  };
  return {std::move(figures), digest};
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<size_t> sizes = {10000, 80000};
  size_t decisions = 200000;
  std::string record;
  std::string data = (std::filesystem::read_symlink("/proc/self/exe").parent_path() /
                      "../../../scheduler/simulate/data")
                         .lexically_normal()
                         .string();
  CLI::App app("How long a scheduling decision takes");
  app.add_option("--nodes", sizes, "numbers of nodes")->delimiter(',');
  app.add_option("--decisions", decisions, "that are measured");
  app.add_option("--record", record, "append results to bench/results/MACHINE/scheduling.jsonl");
  app.add_option("--data", data, "folder of the traces");
  CLI11_PARSE(app, argc, argv);
  const auto traces = sim::ReadTraces(data);
  if (!traces) {
    std::cerr << traces.error().ToString() << "\n";
    return 1;
  }
  std::ofstream out;
  if (!record.empty()) out.open(record, std::ios::app);
  for (const size_t nodes : sizes) {
    const Results results = Run(nodes, decisions, *traces);
    std::cout << fmt::format("\n{} nodes x {} GPUs; digest of the placements {:016x}\n", nodes,
                             kGpusPerNode, results.digest);
    for (const Figure& f : results.figures) {
      std::cout << fmt::format("  {:28} {:9.2f} {:4} {}\n", f.name, f.value, f.unit, f.goal);
      if (!out.is_open()) continue;
      nlohmann::ordered_json line = {
          {"id", "S3"},
          {"case", fmt::format("{} nodes: {}", nodes, f.name)},
          {"value", std::round(f.value * 1000) / 1000},
          {"unit", f.unit},
          {"goal", f.goal},
          {"command", "bench/scheduling/run"},
          {"machine", std::filesystem::path(record).parent_path().filename().string()}};
      const std::time_t now = std::time(nullptr);
      char date[16];
      std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
      line["date"] = date;
      out << line.dump() << "\n";
    }
  }
  return 0;
}
