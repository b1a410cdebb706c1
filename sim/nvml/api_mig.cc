// NVML: MIG as far as a card shows it that is able to do it and has it switched off: the mode and
// the profiles. Instances are not simulated.
#include <cstdio>
#include <cstring>
#include <string>

#include "common/units.h"
#include "sim/nvml/library.h"

using krux::sim::Card;
using krux::sim::Give;

namespace {

struct MigProfile {
  unsigned int index;  // NVML_GPU_INSTANCE_PROFILE_*
  unsigned int id;
  unsigned int slices;   // of compute
  unsigned int eighths;  // of memory
  unsigned int most;     // instances at once
};

constexpr MigProfile kProfiles[] = {
    {NVML_GPU_INSTANCE_PROFILE_1_SLICE, 19, 1, 1, 7},
    {NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2, 15, 1, 2, 4},
    {NVML_GPU_INSTANCE_PROFILE_2_SLICE, 14, 2, 2, 3},
    {NVML_GPU_INSTANCE_PROFILE_3_SLICE, 9, 3, 4, 2},
    {NVML_GPU_INSTANCE_PROFILE_4_SLICE, 5, 4, 4, 1},
    {NVML_GPU_INSTANCE_PROFILE_7_SLICE, 0, 7, 8, 1},
};

unsigned long long MemoryMib(const Card& card, const MigProfile& profile) {
  // An eighth less what the hardware keeps for itself; a whole card keeps as much.
  return card.memory_bytes / krux::kMiB * profile.eighths / 8 * 98 / 100;
}

std::string NameOf(const Card& card, const MigProfile& profile) {
  const unsigned long long gigabytes = (MemoryMib(card, profile) + 512) / 1024;
  return "MIG " + std::to_string(profile.slices) + "g." + std::to_string(gigabytes) + "gb";
}

const MigProfile* FindProfile(const Card& card, unsigned int index) {
  if (card.facts.mig_slices == 0) return nullptr;
  for (const MigProfile& profile : kProfiles) {
    if (profile.index == index) return &profile;
  }
  return nullptr;
}

unsigned int ProcessorsOf(const Card& card, const MigProfile& profile) {
  if (profile.slices == card.facts.mig_slices) return card.multiprocessors;
  return profile.slices * (card.multiprocessors / 8 / 2 * 2);
}

template <typename Info>
void FillProfile(const Card& card, const MigProfile& profile, Info* info) {
  info->id = profile.id;
  info->sliceCount = profile.slices;
  info->instanceCount = profile.most;
  info->multiprocessorCount = ProcessorsOf(card, profile);
  info->copyEngineCount = profile.slices;
  info->decoderCount = profile.slices;
  info->encoderCount = 0;
  info->jpegCount = profile.slices;
  info->ofaCount = profile.slices == card.facts.mig_slices ? 1 : 0;
  info->memorySizeMB = MemoryMib(card, profile);
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current,
                                  unsigned int* pending) {
  KRUX_SIM_NVML_CARD(device);
  if (card.facts.mig_slices == 0) return NVML_ERROR_NOT_SUPPORTED;
  if (current == nullptr || pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *current = NVML_DEVICE_MIG_DISABLE;
  *pending = NVML_DEVICE_MIG_DISABLE;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  KRUX_SIM_NVML_CARD(device);
  return Give(count, 0U);  // with MIG switched off, as the H200 says it
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* is_mig) {
  KRUX_SIM_NVML_CARD(device);
  return Give(is_mig, 0U);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int,
                                                 nvmlDevice_t* out) {
  KRUX_SIM_NVML_CARD(device);
  return out == nullptr ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int index,
                                                 nvmlGpuInstanceProfileInfo_t* info) {
  KRUX_SIM_NVML_CARD(device);
  if (info == nullptr || index >= NVML_GPU_INSTANCE_PROFILE_COUNT) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const MigProfile* profile = FindProfile(card, index);
  if (profile == nullptr) return NVML_ERROR_NOT_SUPPORTED;
  FillProfile(card, *profile, info);
  info->isP2pSupported = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int index,
                                                  nvmlGpuInstanceProfileInfo_v2_t* info) {
  KRUX_SIM_NVML_CARD(device);
  if (info == nullptr || index >= NVML_GPU_INSTANCE_PROFILE_COUNT) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const MigProfile* profile = FindProfile(card, index);
  if (profile == nullptr) return NVML_ERROR_NOT_SUPPORTED;
  if (info->version == nvmlGpuInstanceProfileInfo_v2) {
    FillProfile(card, *profile, info);
    info->isP2pSupported = 0;
    std::snprintf(info->name, sizeof info->name, "%s", NameOf(card, *profile).c_str());
    return NVML_SUCCESS;
  }
  if (info->version != nvmlGpuInstanceProfileInfo_v3) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  auto* third = reinterpret_cast<nvmlGpuInstanceProfileInfo_v3_t*>(info);
  FillProfile(card, *profile, third);
  third->capabilities = 0;
  std::snprintf(third->name, sizeof third->name, "%s", NameOf(card, *profile).c_str());
  return NVML_SUCCESS;
}

}  // extern "C"
