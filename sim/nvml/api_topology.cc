// NVML: how devices, processors and each other's links lie.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "sim/nvml/library.h"

using krux::sim::Card;
using krux::sim::Give;

namespace {

// Links run through a switch that a card alone in its machine has not.
bool HasLinks(const krux::sim::SharedState& state, const Card& card) {
  return card.facts.nvlinks > 0 && state.data().card_count > 1;
}

uint32_t NumaNodes(const krux::sim::SharedState& state) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < state.data().card_count; ++i) {
    most = std::max(most, state.data().cards[i].numa_node);
  }
  return most + 1;
}

// Sets bit i for each processor of the card's NUMA node: the machine's processors in equal parts.
void FillProcessors(const krux::sim::SharedState& state, const Card& card, unsigned int words,
                    unsigned long* set) {
  constexpr unsigned long kBits = 8 * sizeof(unsigned long);
  const auto processors = static_cast<unsigned long>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  const unsigned long part = std::max(1UL, processors / NumaNodes(state));
  std::memset(set, 0, words * sizeof *set);
  const unsigned long first = std::min(card.numa_node * part, processors - 1);
  for (unsigned long i = first; i < std::min(first + part, processors); ++i) {
    if (i / kBits < words) set[i / kBits] |= 1UL << i % kBits;
  }
}

nvmlReturn_t CheckLink(const krux::sim::SharedState& state, const Card& card, unsigned int link) {
  if (!HasLinks(state, card)) return NVML_ERROR_NOT_SUPPORTED;
  return link < card.facts.nvlinks ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

#define KRUX_SIM_NVML_LINK(device, link)                                                       \
  KRUX_SIM_NVML_CARD(device);                                                                  \
  if (const nvmlReturn_t missing = CheckLink(*state, card, (link)); missing != NVML_SUCCESS) { \
    return missing;                                                                            \
  }

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int* node) {
  KRUX_SIM_NVML_CARD(device);
  if (NumaNodes(*state) == 1) return NVML_ERROR_NOT_SUPPORTED;
  return Give(node, card.numa_node);
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long* set) {
  KRUX_SIM_NVML_CARD(device);
  if (words == 0 || set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  FillProcessors(*state, card, words, set);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words,
                                                 unsigned long* set, nvmlAffinityScope_t) {
  return nvmlDeviceGetCpuAffinity(device, words, set);
}
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words,
                                         unsigned long* set, nvmlAffinityScope_t) {
  KRUX_SIM_NVML_CARD(device);
  if (words == 0 || set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::memset(set, 0, words * sizeof *set);
  set[0] = 1UL << card.numa_node;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                                 nvmlGpuTopologyLevel_t* level) {
  KRUX_SIM_NVML_CARD(one);
  uint32_t other_index = 0;
  if (!krux::sim::CardOf(other, &other_index)) return NVML_ERROR_INVALID_ARGUMENT;
  if (other_index == card_index) return NVML_ERROR_NOT_SUPPORTED;  // as the H200 says it
  const bool is_near = state->card(other_index).numa_node == card.numa_node;
  return Give(level, is_near ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM);
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level,
                                              unsigned int* count, nvmlDevice_t* out) {
  KRUX_SIM_NVML_CARD(device);
  if (count == nullptr || (*count > 0 && out == nullptr)) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned int found = 0;
  for (const uint32_t other : state->visible_cards()) {
    nvmlGpuTopologyLevel_t between = NVML_TOPOLOGY_SYSTEM;
    const nvmlDevice_t handle = krux::sim::HandleOf(other);
    if (nvmlDeviceGetTopologyCommonAncestor(device, handle, &between) != NVML_SUCCESS) continue;
    if (between != level) continue;
    if (found < *count) out[found] = handle;
    ++found;
  }
  *count = *count == 0 ? found : std::min(*count, found);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other,
                                    nvmlGpuP2PCapsIndex_t what, nvmlGpuP2PStatus_t* status) {
  KRUX_SIM_NVML_CARD(one);
  uint32_t other_index = 0;
  if (!krux::sim::CardOf(other, &other_index)) return NVML_ERROR_INVALID_ARGUMENT;
  const bool needs_links =
      what == NVML_P2P_CAPS_INDEX_NVLINK || what == NVML_P2P_CAPS_INDEX_ATOMICS;
  const bool is_there = !needs_links || HasLinks(*state, card);
  return Give(status, is_there ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                      nvmlEnableState_t* is_active) {
  KRUX_SIM_NVML_LINK(device, link);
  return Give(is_active, NVML_FEATURE_ENABLED);
}
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                        unsigned int* version) {
  KRUX_SIM_NVML_LINK(device, link);
  return Give(version, card.facts.nvlink_version);
}
nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
                                           nvmlNvLinkCapability_t what, unsigned int* is_there) {
  KRUX_SIM_NVML_LINK(device, link);
  const bool has_it = what == NVML_NVLINK_CAP_P2P_SUPPORTED ||
                      what == NVML_NVLINK_CAP_P2P_ATOMICS || what == NVML_NVLINK_CAP_VALID;
  return Give(is_there, has_it ? 1U : 0U);
}
nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
                                             nvmlNvLinkErrorCounter_t, unsigned long long* count) {
  KRUX_SIM_NVML_LINK(device, link);
  return Give(count, 0ULL);
}
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 nvmlIntNvLinkDeviceType_t* type) {
  KRUX_SIM_NVML_LINK(device, link);
  return Give(type, NVML_NVLINK_DEVICE_TYPE_SWITCH);
}
// All links lead to one switch.
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                 nvmlPciInfo_t* pci) {
  KRUX_SIM_NVML_LINK(device, link);
  if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::memset(pci, 0, sizeof *pci);
  pci->bus = 0x05;
  std::snprintf(pci->busId, sizeof pci->busId, "00000000:05:00.0");
  std::snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:05:00.0");
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
                                              nvmlPciInfo_t* pci) {
  return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci);
}

}  // extern "C"
