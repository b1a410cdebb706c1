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

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/engine/mix.h"

namespace krux::engine {

// Shares are counted in percent of a GPU.
constexpr int32_t kWholeShare = 100;
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

// Free share in percent, to the nearest; 100 only when all is free.
inline uint8_t ShareOf(uint64_t free, uint64_t whole) {
  if (free >= whole) return whole == 0 ? 0 : kWholeShare;
  const auto share =
      static_cast<uint32_t>(static_cast<float>(free) * 100.0F / static_cast<float>(whole) + 0.5F);
  return static_cast<uint8_t>(share < kWholeShare ? share : kWholeShare - 1);
}

// What the cluster has, as far as the tables depend on it.
struct Fleet {
  GpusOfModel gpus{};                                  // cards of each model
  std::array<uint64_t, KRUX_MAX_MODELS> memory_mib{};  // of one card; 0 = not known
  uint64_t most_cpu_milli = 0;                         // of one node
  uint32_t most_gpus = 0;                              // of one node
};

class Forecast {
 public:
  Forecast(const Mix& mix, const Fleet& fleet);

  // All four parts for the whole node.
  int64_t LossOf(const NodeState& node) const;

  // The parts of LossOf(), for those who change one GPU at a time.
  // Row of the CPU that is left; REQUIRED by the others.
  uint32_t CpuStep(uint64_t cpu_milli) const;
  int64_t GpuLoss(uint32_t model, uint32_t cpu_step, uint32_t memory, uint32_t cores) const {
    const Tables& t = tables_[table_of_[model]];
    const size_t row = size_t{cpu_step} * kShares;
    const int32_t misfit = std::max(t.memory_misfit[row + memory], t.cores_misfit[row + cores]);
    const uint32_t usable = std::min(memory, cores);
    return int64_t{misfit} * usable + t.remnant[usable];
  }
  // usable = sum of the GPUs' usable shares, whole = number of GPUs with nobody on them.
  int64_t NodeLoss(uint32_t model, uint64_t cpu_milli, uint32_t cpu_step, uint32_t usable,
                   uint32_t whole) const {
    return Strand(tables_[table_of_[model]], cpu_milli, usable) -
           blocks_[size_t{cpu_step} * kWholeCounts + whole];
  }

  // See Mix: wanted by pods that can use no other model, relative to demand everywhere.
  float scarcity(uint32_t model) const { return scarcity_[model]; }

 private:
  static constexpr size_t kShares = kWholeShare + 1;
  static constexpr size_t kWholeCounts = KRUX_MAX_GPUS + 1;
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
  struct Tables {
    std::vector<int32_t> memory_misfit;  // [cpu_step][free memory]
    std::vector<int32_t> cores_misfit;   // [cpu_step][free cores]
    std::vector<int32_t> remnant;        // [usable]
    std::vector<int32_t> strand;         // [cpu unit][GPU unit]
  };

  std::vector<Demand> DemandsOn(uint32_t model, const Mix& mix, const Fleet& fleet) const;
  void FindCpuSteps(const Mix& mix);
  void FillBlocks(const Mix& mix);
  Tables MakeTables(const std::vector<Demand>& demands) const;
  void FillMisfit(const std::vector<Demand>& demands, Tables* tables) const;
  static void FillRemnant(const std::vector<Demand>& demands, Tables* tables);
  void FillStrand(const std::vector<Demand>& demands, Tables* tables) const;
  double StrandAt(const std::vector<Demand>& demands, const std::vector<double>& strand,
                  uint32_t cpu, uint32_t gpu) const;
  int64_t Strand(const Tables& tables, uint64_t cpu_milli, uint32_t usable) const;

  std::vector<uint64_t> cpu_steps_;  // CPU that some class asks for, rising
  uint64_t cpu_unit_ = 1000;         // of the strand table, in 1/1000 core
  uint32_t gpu_unit_ = 10;           // and in percent of a GPU
  std::vector<Tables> tables_;       // one for each kind of card that differs for the mix
  std::array<uint8_t, KRUX_MAX_MODELS> table_of_{};
  std::vector<int32_t> blocks_;  // [cpu_step][whole GPUs]
  std::array<float, KRUX_MAX_MODELS> scarcity_{};
};

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_FORECAST_H_
