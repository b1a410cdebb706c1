#include <algorithm>
#include <cstring>

#include "sim/cuda/module.h"

namespace krux::sim {
namespace {

uint64_t ReadParameter(const Function& function, void** parameters, const void* packed) {
  if (function.cost_parameter >= function.parameters.size()) return 0;
  const Parameter& parameter = function.parameters[function.cost_parameter];
  const void* value = nullptr;
  if (parameters != nullptr) {
    value = parameters[function.cost_parameter];
  } else if (packed != nullptr) {
    value = static_cast<const char*>(packed) + parameter.offset;
  }
  if (value == nullptr || parameter.bytes > 8) return 0;
  uint64_t units = 0;
  std::memcpy(&units, value, parameter.bytes);
  return units;
}

}  // namespace

LaunchCost CostOf(const Function& function, Card& card, uint64_t blocks, uint64_t threads_per_block,
                  void** parameters, const void* packed_parameters) {
  // How many blocks the card holds at once.
  const uint64_t per_processor =
      std::max<uint64_t>(1, card.threads_per_multiprocessor / std::max<uint64_t>(1, threads_per_block));
  const uint64_t wave = per_processor * card.multiprocessors;
  LaunchCost cost;
  cost.width = static_cast<float>(std::min(1.0, static_cast<double>(blocks) / static_cast<double>(wave)));
  constexpr uint64_t kLongest = uint64_t{3600} * 1'000'000'000;
  if (function.has_named_cost) {
    const uint64_t units = function.picoseconds_per_unit == 0
                               ? 0
                               : ReadParameter(function, parameters, packed_parameters);
    const double variable =
        static_cast<double>(units) * static_cast<double>(function.picoseconds_per_unit) / 1000;
    cost.time = function.base_cost +
                static_cast<Nanos>(std::min(variable, static_cast<double>(kLongest)));
    return cost;
  }
  // Unknown kernels: a start-up cost and some time for each wave of blocks.
  constexpr Nanos kStart = 2500;
  constexpr Nanos kWave = 2500;
  const uint64_t waves = (blocks + wave - 1) / wave;
  cost.time = kStart + kWave * static_cast<Nanos>(std::min<uint64_t>(waves, 1'000'000'000));
  return cost;
}

}  // namespace krux::sim
