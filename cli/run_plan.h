// `krux run`'s flags, checked: what is wanted, before anything is started or asked.
// Who calls it: main.cc. Thread rule: pure functions.
#ifndef KRUX_CLI_RUN_PLAN_H_
#define KRUX_CLI_RUN_PLAN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "protocol/grant.h"

namespace krux::cli {

// As written on the command line.
struct RunFlags {
  std::optional<std::string> memory;
  std::optional<std::string> cores;
  std::optional<std::string> policy;
  std::optional<std::string> priority;
  std::optional<std::string> gpu;
  std::optional<std::string> run_folder;
  std::vector<std::string> command;
};

struct RunPlan {
  GpuGrant grant;                   // uuid empty: any card; memory_mib 0: all of the card
  std::optional<size_t> gpu_index;  // a card by its place in the agent's list
  std::string driver = "auto";      // auto, nvidia or sim
  std::string run_folder;           // empty: the usual one
  std::vector<std::string> command;
};

// kInvalidArgument with one sentence for the first flag that is wrong.
Result<RunPlan> MakeRunPlan(const RunFlags& flags);

}  // namespace krux::cli

#endif  // KRUX_CLI_RUN_PLAN_H_
