#include "sim/state/profile.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "common/units.h"

namespace krux::sim {
namespace {

struct Model {
  const char* key;
  const char* name;
  uint64_t memory_mib;
  uint32_t multiprocessors;
  uint32_t compute_major;
  uint32_t compute_minor;
  uint64_t context_mib;
};

// Memory and context cost of the H200 are measured with driver 580; the other rows carry data-sheet
// figures.
constexpr Model kModels[] = {
    {"H200", "NVIDIA H200", 143771, 132, 9, 0, 518},
    {"H100", "NVIDIA H100 80GB HBM3", 81559, 132, 9, 0, 518},
    {"A100", "NVIDIA A100-SXM4-80GB", 81920, 108, 8, 0, 412},
    {"L40S", "NVIDIA L40S", 46068, 142, 8, 9, 352},
    {"T4", "Tesla T4", 15360, 40, 7, 5, 104},
};

// Measured on the same card (bench/sim_time compares): tenants that keep it busy get 90.8 % of it
// together, and a request beside one waits 0 to 2 ms for its turn: so slices are 2 ms, and a switch
// in the middle of work costs 2 ms x (1 / 0.908 - 1). With short kernels that are waited for, each
// turn takes 133 us longer than the kernel. A kernel that meets an empty stream starts after 3 us.
constexpr TurnRules kH200Time = {2 * kMillisecond, 133 * kMicrosecond, 203 * kMicrosecond};
constexpr Nanos kLaunch = 3 * kMicrosecond;

struct NamedCost {
  const char* name;
  uint64_t base_ns;
  uint64_t picoseconds_per_unit;
  uint32_t parameter;
};

// The loops of fused multiply-adds that the examples and probes run: (float* out, unsigned iters).
constexpr NamedCost kCosts[] = {
    {"fma_loop", 2000, 10000, 1},
    {"fma_kernel", 2000, 10000, 1},
    {"empty_kernel", 2000, 0, 0},
};

template <size_t N>
void CopyText(char (&to)[N], const std::string& text) {
  const size_t length = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

// FNV-1a over the node's name and the card's index, spread over 16 bytes: the same node has the
// same cards after each restart.
void DeriveUuid(const std::string& node, uint32_t index, unsigned char (&uuid)[16]) {
  if (node.empty()) {
    if (getrandom(uuid, sizeof uuid, 0) == static_cast<ssize_t>(sizeof uuid)) return;
  }
  uint64_t hash = 0xcbf29ce484222325;
  auto mix = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const char c : node) mix(static_cast<unsigned char>(c));
  mix(static_cast<unsigned char>(index));
  for (size_t i = 0; i < sizeof uuid; ++i) {
    mix(static_cast<unsigned char>(i));
    uuid[i] = static_cast<unsigned char>(hash >> 32);
  }
}

Result<Model> FindModel(const std::string& key) {
  std::string known;
  for (const Model& model : kModels) {
    if (key == model.key) return model;
    known += known.empty() ? model.key : std::string(", ") + model.key;
  }
  return Error{ErrorCode::kInvalidArgument, "card model '" + key + "' is not known: use " + known};
}

}  // namespace

Status FillState(const NodeOptions& options, State* state) {
  KRUX_ASSIGN_OR_RETURN(const Model model, FindModel(options.model));
  if (options.gpus == 0 || options.gpus > kMaxCards) {
    return Error{ErrorCode::kInvalidArgument, "a simulated node has 1 to " +
                                                  std::to_string(kMaxCards) + " GPUs, not " +
                                                  std::to_string(options.gpus)};
  }
  const uint64_t memory_mib = options.memory_mib != 0 ? options.memory_mib : model.memory_mib;
  if (memory_mib < 1024 || memory_mib > 1024 * 1024) {
    return Error{ErrorCode::kInvalidArgument,
                 "memory of a card is 1024 to 1048576 MiB, not " + std::to_string(memory_mib)};
  }
  for (uint32_t i = 0; i < options.gpus; ++i) {
    Card& card = state->cards[i];
    CopyText(card.name, options.name.empty() ? model.name : options.name);
    DeriveUuid(options.node, i, card.uuid);
    card.memory_bytes = memory_mib * kMiB;
    card.multiprocessors = model.multiprocessors;
    card.compute_major = model.compute_major;
    card.compute_minor = model.compute_minor;
    card.threads_per_multiprocessor = model.compute_major == 7 ? 1024 : 2048;
    card.pci_bus = 0x10 + i * 0x10;
    card.slice_ns = kH200Time.slice;
    card.drain_switch_ns = kH200Time.drain_switch;
    card.preempt_switch_ns = kH200Time.preempt_switch;
    card.launch_ns = kLaunch;
    card.context_bytes = model.context_mib * kMiB;
  }
  state->card_count = options.gpus;
  state->driver_version = 13000;
  CopyText(state->driver_name, "580.95.05");
  for (const NamedCost& cost : kCosts) {
    KernelCost& row = state->kernel_costs[state->kernel_cost_count++];
    CopyText(row.name, cost.name);
    row.base_ns = cost.base_ns;
    row.picoseconds_per_unit = cost.picoseconds_per_unit;
    row.parameter = cost.parameter;
  }
  state->size = sizeof(State);
  state->magic = kStateMagic;
  return Ok();
}

}  // namespace krux::sim
