#include "gpu/fake_nvml.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace {

using krux::gpu::FakeCard;
using krux::gpu::FakeNvmlState;
namespace abi = krux::gpu::abi;

FakeNvmlState state;

FakeCard& CardOf(abi::Device device) { return *reinterpret_cast<FakeCard*>(device); }

abi::Return Text(const FakeCard& card, const std::string& text, char* out, unsigned size) {
  if (card.broken != abi::kSuccess) return card.broken;
  std::snprintf(out, size, "%s", text.c_str());
  return abi::kSuccess;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] FakeNvmlState* fake_nvml_state() { return &state; }

abi::Return nvmlInit_v2() {
  if (state.init == abi::kSuccess) ++state.open;
  return state.init;
}
abi::Return nvmlShutdown() {
  --state.open;
  return abi::kSuccess;
}
const char* nvmlErrorString(abi::Return rc) {
  return rc == abi::kGpuIsLost ? "GPU is lost" : "some error";
}
abi::Return nvmlSystemGetDriverVersion(char* out, unsigned size) {
  std::snprintf(out, size, "580.65.06");
  return abi::kSuccess;
}
abi::Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(state.cards.size());
  return abi::kSuccess;
}
abi::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, abi::Device* device) {
  if (index >= state.cards.size()) return abi::kNotFound;
  *device = reinterpret_cast<abi::Device>(&state.cards[index]);
  return state.cards[index].broken;
}
abi::Return nvmlDeviceGetHandleByUUID(const char* uuid, abi::Device* device) {
  for (FakeCard& card : state.cards) {
    if (card.uuid != uuid) continue;
    *device = reinterpret_cast<abi::Device>(&card);
    return card.broken;
  }
  return abi::kNotFound;
}
abi::Return nvmlDeviceGetUUID(abi::Device device, char* out, unsigned size) {
  return Text(CardOf(device), CardOf(device).uuid, out, size);
}
abi::Return nvmlDeviceGetName(abi::Device device, char* out, unsigned size) {
  return Text(CardOf(device), CardOf(device).name, out, size);
}
abi::Return nvmlDeviceGetMemoryInfo(abi::Device device, abi::Memory* out) {
  const FakeCard& card = CardOf(device);
  *out = abi::Memory{card.memory_bytes, card.memory_bytes - 1000, 1000};
  return card.broken;
}
abi::Return nvmlDeviceGetMinorNumber(abi::Device device, unsigned* out) {
  *out = CardOf(device).minor;
  return CardOf(device).broken;
}
abi::Return nvmlDeviceGetPciInfo_v3(abi::Device device, abi::PciInfo* out) {
  std::snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", CardOf(device).minor + 24);
  return CardOf(device).broken;
}
abi::Return nvmlDeviceGetMemoryAffinity(abi::Device device, unsigned words, unsigned long* nodes,
                                        int) {
  const int node = CardOf(device).numa_node;
  std::fill_n(nodes, words, 0UL);
  if (node < 0) return abi::kNotSupported;
  nodes[node / 64] = 1UL << (node % 64);
  return CardOf(device).broken;
}
abi::Return nvmlDeviceGetP2PStatus(abi::Device one, abi::Device other, int what, int* status) {
  const bool linked = what == abi::kP2pNvlink && CardOf(one).linked_with == CardOf(other).uuid;
  *status = linked ? abi::kP2pOk : 5;
  return abi::kSuccess;
}
abi::Return nvmlDeviceGetMigMode(abi::Device device, unsigned* current, unsigned* pending) {
  *current = *pending = CardOf(device).mig;
  return CardOf(device).broken;
}
abi::Return nvmlDeviceGetRemappedRows(abi::Device device, unsigned* correctable,
                                      unsigned* uncorrectable, unsigned* pending,
                                      unsigned* failed) {
  *correctable = *uncorrectable = 0;
  *pending = CardOf(device).rows_pending;
  *failed = CardOf(device).rows_failed;
  return CardOf(device).broken;
}
abi::Return nvmlDeviceGetComputeRunningProcesses_v3(abi::Device device, unsigned* count,
                                                    abi::ProcessInfo* out) {
  const FakeCard& card = CardOf(device);
  const auto size = static_cast<unsigned>(card.processes.size());
  const bool fits = size <= *count;
  *count = size;
  if (!fits) return abi::kInsufficientSize;
  std::memcpy(out, card.processes.data(), size * sizeof(abi::ProcessInfo));
  return card.broken;
}

abi::Return nvmlEventSetCreate(abi::EventSet* set) {
  *set = reinterpret_cast<abi::EventSet>(&state);
  return abi::kSuccess;
}
abi::Return nvmlEventSetFree(abi::EventSet) { return abi::kSuccess; }
abi::Return nvmlDeviceRegisterEvents(abi::Device, unsigned long long, abi::EventSet) {
  return abi::kSuccess;
}
abi::Return nvmlEventSetWait_v2(abi::EventSet, abi::EventData* out, unsigned) {
  constexpr abi::Return timed_out = 10;
  if (state.xids.empty()) return timed_out;
  const auto [card, number] = state.xids.front();
  state.xids.erase(state.xids.begin());
  *out = {reinterpret_cast<abi::Device>(&state.cards[card]), abi::kEventXidCritical, number, ~0U,
          ~0U};
  return abi::kSuccess;
}

}  // extern "C"
