// How much of a node's free GPU share is likely to be lost: the heart of the fragmentation policy.
//
// Made from a Mix, for the cards that the cluster has; all that costs time is in tables, so that
// LossOf() is some dozen look-ups. Four parts, each in millionths of a GPU:
//   misfit  what each typical pod could not use of the node's free share, weighted by how often it
//           comes (Weng et al., "Beware of Fragmentation", USENIX ATC 2023)
//   remnant what stays of each GPU when typical pods fill it, one after another, until none fits
//   strand  what stays of the node's free GPUs because its CPU is used up first
//   blocks  less than nothing: what it is worth that whole sets of idle GPUs are still together for
//           the largest tasks
// remnant and strand are exact expectations over the order of arrivals, by dynamic programming.
// A GPU has two dimensions, memory and time; its usable share is the smaller free one.
//
// Sums are of whole numbers, so that they do not depend on their order. Immutable once made; any
// thread may read it.
#ifndef KRUX_SCHEDULER_ENGINE_FORECAST_H_
#define KRUX_SCHEDULER_ENGINE_FORECAST_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/engine/mix.h"

namespace krux::engine {

// Shares are counted in percent of a GPU.
constexpr uint32_t kWholeShare = 100;
constexpr int64_t kMicro = 1000000;  // of one GPU

// A node's free shares; GPUs that take no newcomers have none.
struct NodeState {
  uint64_t cpu_milli = 0;  // free; kUnknownCpu when nobody said
  uint32_t gpu_count = 0;
  std::array<uint8_t, KRUX_MAX_GPUS> memory;  // free, percent
  std::array<uint8_t, KRUX_MAX_GPUS> cores;
  std::array<uint8_t, KRUX_MAX_GPUS> model;
};
constexpr uint64_t kUnknownCpu = ~uint64_t{0};

// Free share in percent, to the nearest; 100 only when all is free. REQUIRES: whole is at most
// KRUX_MAX_MEMORY_MIB.
inline uint8_t ShareOf(uint64_t free, uint64_t whole) {
  if (free >= whole) return whole == 0 ? 0 : kWholeShare;
  // No card has more than 2^24 MiB: 32 bits hold it, and their division is quick.
  const auto part = static_cast<uint32_t>(free);
  const auto all = static_cast<uint32_t>(whole);
  const uint32_t share = (2 * kWholeShare * part + all) / (2 * all);
  return static_cast<uint8_t>(share < kWholeShare ? share : kWholeShare - 1);
}

// What the cluster has, as far as the tables depend on it.
struct Fleet {
  struct Shape {
    uint64_t cpu_milli = 0;
    uint32_t gpus = 0;
    uint32_t nodes = 0;
  };
  GpusOfModel gpus{};                                  // cards of each model
  std::array<uint64_t, KRUX_MAX_MODELS> memory_mib{};  // of one card; 0 = not known
  uint64_t most_cpu_milli = 0;                         // of one node
  uint32_t most_gpus = 0;                              // of one node
  std::vector<Shape> shapes;                           // each once; empty = not known
};

class Forecast {
 public:
  Forecast(const Mix& mix, const Fleet& fleet);

  // All four parts for the whole node.
  int64_t LossOf(const NodeState& node) const;

  // The parts of LossOf(), for those who change one GPU at a time.
  // Where the CPU that is left stands in the tables; needed by the others.
  struct CpuPoint {
    uint32_t step = 0;  // of the classes whose CPU is there
    uint32_t unit = 0;  // of the strand table
    int32_t part = 0;   // between this unit and the next, in kParts
    bool known = false;
  };
  CpuPoint PointOf(uint64_t cpu_milli) const {
    constexpr uint64_t kMostThousands = kStepHints - 1;
    CpuPoint point;
    point.step = step_hint_[std::min(cpu_milli / 1000, kMostThousands)];
    while (point.step + 1 < cpu_steps_.size() && cpu_steps_[point.step + 1] <= cpu_milli) {
      ++point.step;
    }
    point.known = cpu_milli != kUnknownCpu;
    if (!point.known) return point;
    const uint64_t cpu = std::min<uint64_t>(cpu_milli, most_cpu_milli_);
    point.unit = static_cast<uint32_t>(ByCpuUnit(cpu));
    point.part = static_cast<int32_t>(ByCpuUnit((cpu - point.unit * cpu_unit_) * kParts));
    return point;
  }
  int64_t GpuLoss(uint32_t model, const CpuPoint& cpu, uint32_t memory, uint32_t cores) const {
    const Tables& t = tables_[table_of_[model]];
    const size_t row = size_t{cpu.step} * kShares;
    const int32_t misfit = std::max(t.memory_misfit[row + memory], t.cores_misfit[row + cores]);
    const uint32_t usable = std::min(memory, cores);
    return int64_t{misfit} * usable + t.remnant[usable];
  }
  // usable = sum of the GPUs' usable shares, whole = number of GPUs with nobody on them.
  int64_t NodeLoss(uint32_t model, const CpuPoint& cpu, uint32_t usable, uint32_t whole) const {
    const int64_t idle_sets = blocks_[size_t{cpu.step} * kWholeCounts + whole];
    if (!cpu.known) return -idle_sets;
    return StrandAt(tables_[table_of_[model]], cpu, usable) - idle_sets;
  }

  // See Mix: wanted by pods that can use no other model, relative to demand everywhere.
  float scarcity(uint32_t model) const { return scarcity_[model]; }

 private:
  static constexpr size_t kShares = kWholeShare + 1;
  static constexpr size_t kWholeCounts = KRUX_MAX_GPUS + 1;
  static constexpr size_t kStepHints = 1024;
  static constexpr int32_t kParts = 1024;
  static constexpr uint32_t kCpuUnits = 128;  // of the strand table
  static constexpr uint32_t kGpuUnits = 80;

  // Shares of a class on the cards of one model.
  struct Demand {
    uint32_t cpu_step = 0;  // first row in which its CPU is there
    uint64_t cpu_milli = 0;
    uint32_t memory = 0;
    uint32_t cores = 0;
    uint32_t usable = 0;  // what it takes of the usable share
    uint32_t gpus = 0;
    bool allowed = false;
    double weight = 0;
    bool operator==(const Demand&) const = default;
  };
  // What one pod of a class takes, in units of the strand table.
  struct Step {
    double cpu;
    double gpu;
    double weight;
    bool takes_gpu;
  };
  struct Tables {
    std::vector<int32_t> memory_misfit;  // [cpu_step][free memory]
    std::vector<int32_t> cores_misfit;   // [cpu_step][free cores]
    std::vector<int32_t> remnant;        // [usable]
    std::vector<int32_t> strand;         // [cpu unit][GPU unit]
  };

  // n / cpu_unit_ without a division. Exact: n is below 1024 units, a unit is at most 2^20.
  uint64_t ByCpuUnit(uint64_t n) const { return (n * cpu_unit_inverse_) >> kInverseBits; }
  static constexpr uint32_t kInverseBits = 53;

  std::vector<Demand> DemandsOn(uint32_t model, const Mix& mix, const Fleet& fleet) const;
  void FindCpuSteps(const Mix& mix);
  uint32_t CpuStep(uint64_t cpu_milli) const { return PointOf(cpu_milli).step; }
  void FillBlocks(const Mix& mix, const Fleet& fleet);
  Tables MakeTables(const std::vector<Demand>& demands) const;
  void FillMisfit(const std::vector<Demand>& demands, Tables* tables) const;
  static void FillRemnant(const std::vector<Demand>& demands, Tables* tables);
  void FillStrand(const std::vector<Demand>& demands, Tables* tables) const;
  double ExpectedStrand(const std::vector<Step>& steps, const std::vector<double>& strand,
                        uint32_t cpu, uint32_t gpu) const;
  // Between four points of the table.
  int64_t StrandAt(const Tables& tables, const CpuPoint& cpu, uint32_t usable) const {
    const GpuPoint gpu = gpu_points_[usable];
    const int32_t* low = &tables.strand[size_t{cpu.unit} * (kGpuUnits + 1) + gpu.unit];
    const int32_t* high = low + kGpuUnits + 1;
    const auto between = [gpu](const int32_t* at) {
      return int64_t{at[0]} * (kParts - gpu.part) + int64_t{at[1]} * gpu.part;
    };
    return (between(low) * (kParts - cpu.part) + between(high) * cpu.part) / (kParts * kParts);
  }

  struct GpuPoint {
    uint16_t unit = 0;
    uint16_t part = 0;
  };

  std::vector<uint64_t> cpu_steps_;               // CPU that some class asks for, rising
  std::array<uint16_t, kStepHints> step_hint_{};  // by whole cores: a step that is not too high
  uint32_t cpu_unit_ = 1000;                      // of the strand table, in 1/1000 core
  uint64_t cpu_unit_inverse_ = 0;                 // 2^kInverseBits / cpu_unit_, rounded up
  uint32_t most_cpu_milli_ = 0;                   // that the strand table tells apart
  std::vector<GpuPoint> gpu_points_;              // by usable share
  uint32_t gpu_unit_ = 10;                        // and in percent of a GPU
  std::vector<Tables> tables_;  // one for each kind of card that differs for the mix
  std::array<uint8_t, KRUX_MAX_MODELS> table_of_{};
  std::vector<int32_t> blocks_;  // [cpu_step][whole GPUs]
  std::array<float, KRUX_MAX_MODELS> scarcity_{};
};

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_FORECAST_H_
