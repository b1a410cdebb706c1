#include "cli/run_plan.h"

#include <charconv>
#include <string_view>

#include "common/units.h"

namespace krux::cli {
namespace {

Error Wrong(const std::string& flag, const std::string& value, const std::string& why) {
  return Error{ErrorCode::kInvalidArgument, flag + " '" + value.substr(0, 64) + "' " + why};
}

std::optional<uint32_t> WholeNumber(std::string_view text, uint32_t most) {
  uint32_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size() || number > most) {
    return std::nullopt;
  }
  return number;
}

Status ReadMemory(const RunFlags& flags, RunPlan* plan) {
  if (!flags.memory) return Ok();
  const auto bytes = ParseMemory(*flags.memory);
  if (!bytes || *bytes / kMiB > kMaxGpuMemoryMib) {
    return Wrong("--gpumem", *flags.memory,
                 "is not a memory size: write for example 4GiB, 512MiB or 4096 (MiB)");
  }
  plan->grant.memory_mib = *bytes / kMiB;
  return Ok();
}

Status ReadCores(const RunFlags& flags, RunPlan* plan) {
  if (flags.cores) {
    const auto cores = WholeNumber(*flags.cores, 100);
    if (!cores || *cores == 0) {
      return Wrong("--gpucores", *flags.cores,
                   "is not a percentage: write a whole number from 1 to 100, or leave it out for "
                   "no guarantee");
    }
    plan->grant.cores = *cores;
  }
  if (flags.policy) {
    const auto policy = ParseComputePolicy(*flags.policy);
    if (!policy) return Wrong("--policy", *flags.policy, "is unknown: use fixed, balance or none");
    plan->grant.policy = *policy;
  }
  if (plan->grant.policy == ComputePolicy::kFixed && plan->grant.cores == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "--policy fixed is a ceiling and needs --gpucores from 1 to 100"};
  }
  if (plan->grant.policy == ComputePolicy::kNone && plan->grant.cores != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "--policy none gives no guarantee: leave out --gpucores, or use balance"};
  }
  return Ok();
}

Status ReadGpu(const RunFlags& flags, RunPlan* plan) {
  const std::string gpu = flags.gpu.value_or("auto");
  if (gpu == "auto") return Ok();
  if (gpu == "sim" || gpu == "nvidia") {
    plan->driver = gpu;
    return Ok();
  }
  if (const auto index = WholeNumber(gpu, 1023)) {
    plan->gpu_index = *index;
    return Ok();
  }
  const auto uuid = ParseGpuUuid(gpu);
  if (!uuid) {
    return Wrong("--gpu", gpu,
                 "is no card: use auto, sim, nvidia, an index such as 0, or a UUID as `nvidia-smi "
                 "-L` shows it");
  }
  plan->grant.uuid = FormatGpuUuid(*uuid);
  return Ok();
}

}  // namespace

Result<RunPlan> MakeRunPlan(const RunFlags& flags) {
  RunPlan plan;
  KRUX_RETURN_IF_ERROR(ReadMemory(flags, &plan));
  KRUX_RETURN_IF_ERROR(ReadCores(flags, &plan));
  if (flags.priority) {
    const auto priority = ParsePriority(*flags.priority);
    if (!priority) {
      return Wrong("--priority", *flags.priority, "is unknown: use latency, normal or batch");
    }
    plan.grant.priority = *priority;
  }
  KRUX_RETURN_IF_ERROR(ReadGpu(flags, &plan));
  if (flags.run_folder && !flags.run_folder->starts_with('/')) {
    return Wrong("--run-folder", *flags.run_folder, "must be an absolute path");
  }
  if (flags.command.empty() || flags.command.front().empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        "no command: write it after --, as in `krux run --gpumem 4GiB -- python train.py`"};
  }
  plan.run_folder = flags.run_folder.value_or("");
  plan.command = flags.command;
  return plan;
}

}  // namespace krux::cli
