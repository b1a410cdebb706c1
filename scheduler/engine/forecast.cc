#include "scheduler/engine/forecast.h"

#include <algorithm>
#include <cmath>

namespace krux::engine {
namespace {

// What each part counts: found by replaying the openb traces with the simulator, 8-GPU tasks
// guarded (docs/packing.md).
constexpr double kMisfitWeight = 0.88;
constexpr double kRemnantWeight = 0.58;
constexpr double kStrandWeight = 0.83;
// GPUs that an idle set is worth, for the part of the largest tasks whose CPU is there too; and
// what comes to it if all demand were for such tasks.
constexpr double kIdleSet = 0.1;
constexpr double kWantedSet = 0.25;
// The largest tasks count from this part of the demand on.
constexpr double kLeastDemand = 0.005;

// Memory of a card about which nothing is known, to turn MiB into a share.
constexpr uint64_t kTypicalCardMib = 81920;

uint32_t Nearest(double share) {
  const auto percent = static_cast<uint32_t>(std::lround(share * kWholeShare));
  return std::clamp<uint32_t>(percent, 0, kWholeShare);
}

// Of the nodes with so many GPUs few may have the CPU for a task: how many there are for each that
// has it.
double RarityOf(uint32_t gpus, uint64_t cpu_milli, const Fleet& fleet) {
  constexpr double kMost = 100;
  double all = 0;
  double able = 0;
  for (const Fleet::Shape& shape : fleet.shapes) {
    if (shape.gpus < gpus) continue;
    all += shape.nodes;
    able += shape.cpu_milli >= cpu_milli || shape.cpu_milli == 0 ? shape.nodes : 0;
  }
  return able == 0 ? 1 : std::min(kMost, all / able);
}

int32_t ToMicro(double gpus) { return static_cast<int32_t>(std::lround(gpus * kMicro)); }

}  // namespace

Forecast::Forecast(const Mix& mix, const Fleet& fleet) {
  constexpr uint64_t kMostCpu = 1U << 27;
  const uint64_t most_cpu = std::min(fleet.most_cpu_milli, kMostCpu);
  cpu_unit_ =
      static_cast<uint32_t>(std::max<uint64_t>(1000, (most_cpu + kCpuUnits - 1) / kCpuUnits));
  cpu_unit_inverse_ = (uint64_t{1} << kInverseBits) / cpu_unit_ + 1;
  most_cpu_milli_ = cpu_unit_ * kCpuUnits - 1;
  constexpr uint32_t kUsualGpus = 8;
  gpu_unit_ = 10 * std::max<uint32_t>(1, (fleet.most_gpus + kUsualGpus - 1) / kUsualGpus);
  const uint32_t most_usable = gpu_unit_ * kGpuUnits - 1;
  for (uint32_t usable = 0; usable <= KRUX_MAX_GPUS * kWholeShare; ++usable) {
    const uint32_t counted = std::min(usable, most_usable);
    gpu_points_.push_back({static_cast<uint16_t>(counted / gpu_unit_),
                           static_cast<uint16_t>(counted % gpu_unit_ * kParts / gpu_unit_)});
  }
  FindCpuSteps(mix);
  FillBlocks(mix, fleet);
  // Most models are alike for the mix: they share one table.
  std::vector<std::vector<Demand>> kinds;
  for (uint32_t model = 0; model < KRUX_MAX_MODELS; ++model) {
    scarcity_[model] = mix.scarcity(model);
    const std::vector<Demand> demands = DemandsOn(model, mix, fleet);
    const auto found = std::find(kinds.begin(), kinds.end(), demands);
    table_of_[model] = static_cast<uint8_t>(found - kinds.begin());
    if (found != kinds.end()) continue;
    kinds.push_back(demands);
    tables_.push_back(MakeTables(demands));
  }
}

void Forecast::FindCpuSteps(const Mix& mix) {
  cpu_steps_.push_back(0);
  for (const Typical& t : mix.classes()) cpu_steps_.push_back(t.cpu_milli);
  for (const Typical& t : mix.blocks()) cpu_steps_.push_back(t.cpu_milli);
  std::sort(cpu_steps_.begin(), cpu_steps_.end());
  cpu_steps_.erase(std::unique(cpu_steps_.begin(), cpu_steps_.end()), cpu_steps_.end());
  for (size_t cores = 0; cores < kStepHints; ++cores) {
    const auto next = std::upper_bound(cpu_steps_.begin(), cpu_steps_.end(), cores * 1000);
    step_hint_[cores] = static_cast<uint16_t>(next - cpu_steps_.begin() - 1);
  }
}

std::vector<Forecast::Demand> Forecast::DemandsOn(uint32_t model, const Mix& mix,
                                                  const Fleet& fleet) const {
  const uint64_t known = fleet.memory_mib[model];
  const auto card = static_cast<double>(known == 0 ? kTypicalCardMib : known);
  std::vector<Demand> demands;
  for (const Typical& t : mix.classes()) {
    Demand d;
    d.cpu_step = CpuStep(t.cpu_milli);
    d.cpu_milli = t.cpu_milli;
    d.gpus = t.gpus;
    d.weight = static_cast<double>(t.weight);
    d.allowed =
        t.gpus > 0 && (t.models >> model & 1) != 0 && static_cast<double>(t.memory_mib) <= card;
    if (d.allowed) {
      const double memory = t.memory_mib == 0 ? static_cast<double>(t.memory_share)
                                              : static_cast<double>(t.memory_mib) / card;
      d.memory = t.exclusive ? kWholeShare : std::max<uint32_t>(Nearest(memory), 1);
      d.cores = t.exclusive ? kWholeShare : Nearest(static_cast<double>(t.cores_share));
      d.usable = std::max(d.memory, d.cores);
    }
    demands.push_back(d);
  }
  return demands;
}

void Forecast::FillBlocks(const Mix& mix, const Fleet& fleet) {
  blocks_.assign(cpu_steps_.size() * kWholeCounts, 0);
  uint32_t size = 0;
  double demand = 0;
  for (const Typical& t : mix.blocks()) {
    double of_size = 0;
    for (const Typical& other : mix.blocks()) {
      of_size += other.gpus == t.gpus ? static_cast<double>(other.weight) : 0;
    }
    if (of_size < kLeastDemand || t.gpus <= size) continue;
    size = t.gpus;
    demand = of_size;
  }
  if (size == 0) return;
  for (size_t step = 0; step < cpu_steps_.size(); ++step) {
    double wanted = 0;
    for (const Typical& t : mix.blocks()) {
      if (t.gpus != size || CpuStep(t.cpu_milli) > step) continue;
      wanted += static_cast<double>(t.weight) * RarityOf(size, t.cpu_milli, fleet);
    }
    const double worth = kIdleSet * wanted / demand + kWantedSet * wanted;
    for (uint32_t whole = size; whole < kWholeCounts; ++whole) {
      const uint32_t sets = whole / size;
      blocks_[step * kWholeCounts + whole] = ToMicro(worth * static_cast<double>(sets));
    }
  }
}

Forecast::Tables Forecast::MakeTables(const std::vector<Demand>& demands) const {
  Tables tables;
  FillMisfit(demands, &tables);
  FillRemnant(demands, &tables);
  FillStrand(demands, &tables);
  return tables;
}

// Loss per percent of usable share. With a demand in one dimension only, or the same in both, the
// larger of the two tables is exact; with mixed ones it is the lower bound.
void Forecast::FillMisfit(const std::vector<Demand>& demands, Tables* tables) const {
  const auto fill = [&](std::vector<int32_t>* out, const auto& asked) {
    out->assign(cpu_steps_.size() * kShares, 0);
    for (size_t step = 0; step < cpu_steps_.size(); ++step) {
      for (uint32_t free = 0; free < kShares; ++free) {
        double weight = 0;
        for (const Demand& d : demands) {
          const bool unusable = !d.allowed || d.cpu_step > step;
          // Several GPUs of one pod are the blocks' matter.
          if (unusable || (d.gpus == 1 && asked(d) > free)) weight += d.weight;
        }
        (*out)[step * kShares + free] = ToMicro(kMisfitWeight * weight / kWholeShare);
      }
    }
  };
  fill(&tables->memory_misfit, [](const Demand& d) { return d.memory; });
  fill(&tables->cores_misfit, [](const Demand& d) { return d.cores; });
}

// r(g) = mean of r(g - q) over the classes that fit into g; r(g) = g when none does.
void Forecast::FillRemnant(const std::vector<Demand>& demands, Tables* tables) {
  std::vector<double> remnant(kShares);
  for (uint32_t free = 0; free < kShares; ++free) {
    double sum = 0;
    double weight = 0;
    for (const Demand& d : demands) {
      if (!d.allowed || d.gpus != 1 || d.usable > free) continue;
      weight += d.weight;
      sum += d.weight * remnant[free - d.usable];
    }
    remnant[free] = weight > 0 ? sum / weight : static_cast<double>(free) / kWholeShare;
  }
  for (const double r : remnant) tables->remnant.push_back(ToMicro(kRemnantWeight * r));
}

// s(c, g) = mean of s(c - a, g - q) over the classes whose CPU is there; s = g when none of those
// that ask for a GPU has its CPU. GPU shares count as if they were one pool.
void Forecast::FillStrand(const std::vector<Demand>& demands, Tables* tables) const {
  constexpr uint32_t kWidth = kGpuUnits + 1;
  std::vector<Step> steps;
  for (const Demand& d : demands) {
    if (d.gpus > 1 || (d.gpus == 1 && !d.allowed)) continue;
    steps.push_back({static_cast<double>(d.cpu_milli) / static_cast<double>(cpu_unit_),
                     static_cast<double>(d.usable) / static_cast<double>(gpu_unit_), d.weight,
                     d.gpus == 1});
  }
  std::vector<double> strand(size_t{kCpuUnits + 1} * kWidth, 0);
  tables->strand.assign(strand.size(), 0);
  for (uint32_t cpu = 0; cpu <= kCpuUnits; ++cpu) {
    for (uint32_t gpu = 1; gpu < kWidth; ++gpu) {
      strand[size_t{cpu} * kWidth + gpu] = ExpectedStrand(steps, strand, cpu, gpu);
    }
  }
  std::transform(strand.begin(), strand.end(), tables->strand.begin(),
                 [](double s) { return ToMicro(kStrandWeight * s); });
}

double Forecast::ExpectedStrand(const std::vector<Step>& steps, const std::vector<double>& strand,
                                uint32_t cpu, uint32_t gpu) const {
  constexpr uint32_t kWidth = kGpuUnits + 1;
  double sum = 0;
  double weight = 0;
  bool takes_gpu = false;
  for (const Step& step : steps) {
    const double cpu_after = static_cast<double>(cpu) - step.cpu;
    if (cpu_after < 0) continue;
    takes_gpu = takes_gpu || step.takes_gpu;
    const double gpu_after = std::max(0.0, gpu - step.gpu);
    // Between four points of the grid; the point itself is what is sought and takes no part.
    const auto c0 = static_cast<uint32_t>(cpu_after);
    const auto g0 = static_cast<uint32_t>(gpu_after);
    const double cf = cpu_after - c0;
    const double gf = gpu_after - g0;
    const auto add = [&](uint32_t c, uint32_t g, double part) {
      if (part <= 0 || (c == cpu && g == gpu)) return;
      weight += step.weight * part;
      sum += step.weight * part * strand[size_t{c} * kWidth + g];
    };
    add(c0, g0, (1 - cf) * (1 - gf));
    add(c0, g0 + 1, (1 - cf) * gf);
    add(c0 + 1, g0, cf * (1 - gf));
    add(c0 + 1, g0 + 1, cf * gf);
  }
  if (takes_gpu && weight > 0) return sum / weight;
  return static_cast<double>(gpu) * gpu_unit_ / kWholeShare;
}

int64_t Forecast::LossOf(const NodeState& node) const {
  if (node.gpu_count == 0) return 0;
  const CpuPoint cpu = PointOf(node.cpu_milli);
  uint32_t usable = 0;
  uint32_t whole = 0;
  int64_t loss = 0;
  for (uint32_t gpu = 0; gpu < node.gpu_count; ++gpu) {
    const uint32_t memory = node.memory[gpu];
    const uint32_t cores = node.cores[gpu];
    loss += GpuLoss(node.model[gpu], cpu, memory, cores);
    usable += std::min(memory, cores);
    whole += std::min(memory, cores) == kWholeShare ? 1 : 0;
  }
  return loss + NodeLoss(node.model[0], cpu, usable, whole);
}

}  // namespace krux::engine
