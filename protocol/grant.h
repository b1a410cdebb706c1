// The grant: which GPUs, how much memory and how much time each container of a pod gets.
//
// The scheduler writes it as the annotation krux.io/grant on the Binding; the agent reads it and
// checks it (it is the last arbiter). Form, version 1:
//
//   {"v":1,"podUID":"…","node":"…","gen":7,
//    "containers":{"main":[{"uuid":"GPU-…","memMiB":4096,"cores":30,
//                           "policy":"balance","priority":"normal"}]}}
//
// cores 0 = no guarantee. Unknown fields are ignored (newer writers), unknown versions, policies
// and priorities are refused. Text from others is hostile: at most kMaxGrantBytes are looked at.
//
// Thread rule: plain values and pure functions.
#ifndef KRUX_PROTOCOL_GRANT_H_
#define KRUX_PROTOCOL_GRANT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace krux {

constexpr size_t kMaxGrantBytes = 64 * 1024;
constexpr size_t kMaxGrantContainers = 64;
constexpr size_t kMaxGpusPerContainer = 16;
constexpr uint64_t kMaxGpuMemoryMib = 16 * 1024 * 1024;  // 16 TiB: beyond any card

// How GPU time is shared. Integers are on the limits page (pages.h): they never change.
enum class ComputePolicy : uint32_t {
  kBalance = 0,  // guaranteed its cores, may use idle time
  kFixed = 1,    // never more than its cores, even on an idle GPU
  kNone = 2,     // no guarantee, uses what is left
};

enum class Priority : uint32_t {
  kNormal = 0,
  kLatency = 1,  // is let in at the next launch boundary of others
  kBatch = 2,
};

struct GpuGrant {
  std::string uuid;         // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
  uint64_t memory_mib = 0;  // 1 .. kMaxGpuMemoryMib
  uint32_t cores = 0;       // percent of the card's time, 0 .. 100
  ComputePolicy policy = ComputePolicy::kBalance;
  Priority priority = Priority::kNormal;
  bool operator==(const GpuGrant&) const = default;
};

struct PodGrant {
  std::string pod_uid;
  std::string node;
  uint64_t generation = 0;
  std::map<std::string, std::vector<GpuGrant>> containers;  // by container name
  bool operator==(const PodGrant&) const = default;
};

Result<PodGrant> ParseGrant(std::string_view json);
std::string GrantToJson(const PodGrant& grant);

// "balance" | "fixed" | "none"; the error lists the allowed words.
Result<ComputePolicy> ParseComputePolicy(std::string_view text);
std::string_view ComputePolicyName(ComputePolicy policy);
// "latency" | "normal" | "batch"; the error lists the allowed words.
Result<Priority> ParsePriority(std::string_view text);
std::string_view PriorityName(Priority priority);

// "GPU-" and 32 hex digits in the usual groups <-> the 16 bytes that CUDA and NVML hold.
struct UuidBytes {
  uint8_t bytes[16] = {};
  bool operator==(const UuidBytes&) const = default;
};
Result<UuidBytes> ParseGpuUuid(std::string_view text);
std::string FormatGpuUuid(const UuidBytes& uuid);

}  // namespace krux

#endif  // KRUX_PROTOCOL_GRANT_H_
