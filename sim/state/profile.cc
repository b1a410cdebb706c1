#include "sim/state/profile.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "common/units.h"

namespace krux::sim {
namespace {

struct Model {
  const char* name;
  uint64_t memory_mib;
  uint64_t reserved_bytes;
  uint32_t multiprocessors;
  uint32_t compute_major;
  uint32_t compute_minor;
  uint64_t context_mib;
  CardFacts facts;
};

// NVML's numbers for brands and architectures.
constexpr uint32_t kBrandTesla = 2;
constexpr uint32_t kBrandNvidia = 14;
constexpr uint32_t kTuring = 6;
constexpr uint32_t kAmpere = 7;
constexpr uint32_t kAda = 8;
constexpr uint32_t kHopper = 9;
constexpr uint32_t kMegabyte = 1 << 20;

// What an H200 loses to cuInit and to a context beside what the process is charged for.
constexpr uint64_t kProcessUnlisted = 13 * kMiB / 4;
constexpr uint64_t kContextUnlisted = 89 * kMiB / 16;

// Memory and context cost of the H200 are measured with driver 580; the other rows carry data-sheet
// figures, and the attributes that CUDA documents for their compute capability.
const Model kModels[] = {
    {"NVIDIA H200",
     143771,
     644939776,
     132,
     9,
     0,
     518,
     {.key = "H200",
      .part_number = "692-2G520-0280-000",
      .vbios = "96.00.CF.00.01",
      .pci_device_id = 0x233510de,
      .pci_subsystem_id = 0x18bf10de,
      .brand = kBrandNvidia,
      .architecture = kHopper,
      .cores_per_multiprocessor = 128,
      .power_limit_w = 700,
      .power_least_w = 200,
      .power_idle_w = 77,
      .graphics_mhz = 1980,
      .memory_mhz = 3201,
      .video_mhz = 1545,
      .idle_mhz = 345,
      .pcie_generation = 5,
      .nvlinks = 18,
      .nvlink_version = 4,
      .bus_width_bits = 6016,
      .l2_bytes = 60 * kMegabyte,
      .persisting_l2_bytes = 39321600,
      .shared_bytes = 233472,
      .shared_optin_bytes = 232448,
      .blocks_per_multiprocessor = 32,
      .single_to_double = 2,
      .copy_engines = 3,
      .mig_slices = 7,
      .slowdown_celsius = 89,
      .shutdown_celsius = 95}},
    {"NVIDIA H100 80GB HBM3",
     81559,
     561 * kMiB,
     132,
     9,
     0,
     518,
     {.key = "H100",
      .part_number = "692-2G520-0200-000",
      .vbios = "96.00.74.00.01",
      .pci_device_id = 0x233010de,
      .pci_subsystem_id = 0x16c110de,
      .brand = kBrandNvidia,
      .architecture = kHopper,
      .cores_per_multiprocessor = 128,
      .power_limit_w = 700,
      .power_least_w = 200,
      .power_idle_w = 70,
      .graphics_mhz = 1980,
      .memory_mhz = 2619,
      .video_mhz = 1545,
      .idle_mhz = 345,
      .pcie_generation = 5,
      .nvlinks = 18,
      .nvlink_version = 4,
      .bus_width_bits = 5120,
      .l2_bytes = 50 * kMegabyte,
      .persisting_l2_bytes = 32768000,
      .shared_bytes = 233472,
      .shared_optin_bytes = 232448,
      .blocks_per_multiprocessor = 32,
      .single_to_double = 2,
      .copy_engines = 3,
      .mig_slices = 7,
      .slowdown_celsius = 87,
      .shutdown_celsius = 92}},
    {"NVIDIA A100-SXM4-80GB",
     81920,
     603 * kMiB,
     108,
     8,
     0,
     412,
     {.key = "A100",
      .part_number = "692-2G506-0210-002",
      .vbios = "92.00.45.00.03",
      .pci_device_id = 0x20b210de,
      .pci_subsystem_id = 0x147f10de,
      .brand = kBrandNvidia,
      .architecture = kAmpere,
      .cores_per_multiprocessor = 64,
      .power_limit_w = 400,
      .power_least_w = 100,
      .power_idle_w = 60,
      .graphics_mhz = 1410,
      .memory_mhz = 1593,
      .video_mhz = 1290,
      .idle_mhz = 210,
      .pcie_generation = 4,
      .nvlinks = 12,
      .nvlink_version = 3,
      .bus_width_bits = 5120,
      .l2_bytes = 40 * kMegabyte,
      .persisting_l2_bytes = 26214400,
      .shared_bytes = 167936,
      .shared_optin_bytes = 166912,
      .blocks_per_multiprocessor = 32,
      .single_to_double = 2,
      .copy_engines = 3,
      .mig_slices = 7,
      .slowdown_celsius = 89,
      .shutdown_celsius = 92}},
    {"NVIDIA L40S",
     46068,
     598 * kMiB,
     142,
     8,
     9,
     352,
     {.key = "L40S",
      .part_number = "900-2G133-0080-000",
      .vbios = "95.02.66.00.02",
      .pci_device_id = 0x26b910de,
      .pci_subsystem_id = 0x185110de,
      .brand = kBrandNvidia,
      .architecture = kAda,
      .cores_per_multiprocessor = 128,
      .power_limit_w = 350,
      .power_least_w = 100,
      .power_idle_w = 35,
      .graphics_mhz = 2520,
      .memory_mhz = 9001,
      .video_mhz = 1965,
      .idle_mhz = 210,
      .pcie_generation = 4,
      .nvlinks = 0,
      .nvlink_version = 0,
      .bus_width_bits = 384,
      .l2_bytes = 96 * kMegabyte,
      .persisting_l2_bytes = 69206016,
      .shared_bytes = 102400,
      .shared_optin_bytes = 101376,
      .blocks_per_multiprocessor = 24,
      .single_to_double = 64,
      .copy_engines = 2,
      .mig_slices = 0,
      .slowdown_celsius = 89,
      .shutdown_celsius = 92}},
    {"NVIDIA L4",
     23034,
     458 * kMiB,
     58,
     8,
     9,
     262,
     {.key = "L4",
      .part_number = "900-2G193-0000-000",
      .vbios = "95.04.29.00.06",
      .pci_device_id = 0x27b810de,
      .pci_subsystem_id = 0x16ca10de,
      .brand = kBrandNvidia,
      .architecture = kAda,
      .cores_per_multiprocessor = 128,
      .power_limit_w = 72,
      .power_least_w = 40,
      .power_idle_w = 16,
      .graphics_mhz = 2040,
      .memory_mhz = 6251,
      .video_mhz = 1770,
      .idle_mhz = 210,
      .pcie_generation = 4,
      .nvlinks = 0,
      .nvlink_version = 0,
      .bus_width_bits = 192,
      .l2_bytes = 48 * kMegabyte,
      .persisting_l2_bytes = 34603008,
      .shared_bytes = 102400,
      .shared_optin_bytes = 101376,
      .blocks_per_multiprocessor = 24,
      .single_to_double = 64,
      .copy_engines = 2,
      .mig_slices = 0,
      .slowdown_celsius = 95,
      .shutdown_celsius = 98}},
    {"Tesla T4",
     15360,
     449 * kMiB,
     40,
     7,
     5,
     104,
     {.key = "T4",
      .part_number = "900-2G183-0000-001",
      .vbios = "90.04.38.00.03",
      .pci_device_id = 0x1eb810de,
      .pci_subsystem_id = 0x12a210de,
      .brand = kBrandTesla,
      .architecture = kTuring,
      .cores_per_multiprocessor = 64,
      .power_limit_w = 70,
      .power_least_w = 60,
      .power_idle_w = 9,
      .graphics_mhz = 1590,
      .memory_mhz = 5001,
      .video_mhz = 1470,
      .idle_mhz = 300,
      .pcie_generation = 3,
      .nvlinks = 0,
      .nvlink_version = 0,
      .bus_width_bits = 256,
      .l2_bytes = 4 * kMegabyte,
      .persisting_l2_bytes = 0,
      .shared_bytes = 65536,
      .shared_optin_bytes = 65536,
      .blocks_per_multiprocessor = 16,
      .single_to_double = 32,
      .copy_engines = 3,
      .mig_slices = 0,
      .slowdown_celsius = 93,
      .shutdown_celsius = 96}},
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

// Threads of a multiprocessor, by compute capability.
uint32_t ThreadsOf(const Model& model) {
  if (model.compute_major == 7) return 1024;
  return model.compute_major == 8 && model.compute_minor == 9 ? 1536 : 2048;
}

Result<Model> FindModel(const std::string& key) {
  std::string known;
  for (const Model& model : kModels) {
    if (key == model.facts.key) return model;
    known += known.empty() ? model.facts.key : std::string(", ") + model.facts.key;
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
  if (options.numa_nodes == 0 || options.numa_nodes > 8) {
    return Error{ErrorCode::kInvalidArgument, "a simulated node has 1 to 8 NUMA nodes, not " +
                                                  std::to_string(options.numa_nodes)};
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
    // A card of a size of one's own is all for programs.
    card.reserved_bytes = options.memory_mib != 0 ? 0 : model.reserved_bytes;
    card.multiprocessors = model.multiprocessors;
    card.compute_major = model.compute_major;
    card.compute_minor = model.compute_minor;
    card.threads_per_multiprocessor = ThreadsOf(model);
    card.facts = model.facts;
    card.numa_node = i * options.numa_nodes / options.gpus;
    card.pci_bus = 0x10 + i * 0x10;
    card.slice_ns = kH200Time.slice;
    card.drain_switch_ns = kH200Time.drain_switch;
    card.preempt_switch_ns = kH200Time.preempt_switch;
    card.launch_ns = kLaunch;
    card.context_bytes = model.context_mib * kMiB;
    card.context_unlisted_bytes = kContextUnlisted;
    card.process_unlisted_bytes = kProcessUnlisted;
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
