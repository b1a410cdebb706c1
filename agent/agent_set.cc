// The part of Agent that changes the shares of living containers (`krux set`).
#include <utility>

#include "agent/agent.h"
#include "common/log.h"

namespace krux::agent {
namespace {

constexpr uint64_t kAllCores = 100;

bool IsNamed(const LedgerPod& pod, const LedgerContainer& container, const std::string& target) {
  if (container.id == target) return true;
  if (pod.is_private) return false;
  return pod.FullName() == target || pod.FullName() + "/" + container.name == target;
}

Status CheckPair(uint64_t cores, ComputePolicy policy) {
  if (policy == ComputePolicy::kFixed && cores == 0) {
    return Error{ErrorCode::kInvalidArgument, "policy fixed is a ceiling and needs 1 to 100 cores"};
  }
  if (policy == ComputePolicy::kNone && cores != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "policy none gives no guarantee: set 0 cores, or policy balance"};
  }
  return Ok();
}

}  // namespace

// The ledger with the new shares, and the instances that they are for.
Result<Ledger> Agent::WithShares(const api::SetRequest& request,
                                 std::vector<std::string>* ids) const {
  Ledger next = ledger_;
  const auto cores = static_cast<uint32_t>(request.cores);
  for (const auto& [uid, pod] : ledger_.pods()) {
    for (const LedgerContainer& container : pod.containers) {
      if (container.id.empty() || container.gpus.empty()) continue;
      if (!IsNamed(pod, container, request.target)) continue;
      ComputePolicy policy = container.gpus.front().policy;
      if (!request.policy.empty()) {
        KRUX_ASSIGN_OR_RETURN(policy, ParseComputePolicy(request.policy));
      }
      KRUX_RETURN_IF_ERROR(CheckPair(request.cores, policy));
      next.SetShares(container.id, cores, policy);
      ids->push_back(container.id);
    }
  }
  if (!ids->empty()) return next;
  return Error{ErrorCode::kNotFound, "no living container '" + request.target +
                                         "' with a GPU here: use an id or namespace/pod as "
                                         "`krux status` shows them"};
}

// What was promised to others stays theirs; less than now is always in order.
Status Agent::CheckRoom(const Ledger& next, const std::string& id) const {
  const LedgerContainer* container = nullptr;
  next.FindInstance(id, &container);
  for (const GpuGrant& gpu : container->gpus) {
    const uint64_t cores = next.LoadOf(gpu.uuid).cores;
    if (cores <= kAllCores || cores <= ledger_.LoadOf(gpu.uuid).cores) continue;
    return Error{ErrorCode::kResourceExhausted,
                 "GPU " + gpu.uuid + " would have " + std::to_string(cores) +
                     " % of its time promised (" + next.HoldersOf(gpu.uuid) +
                     "): lower another container first"};
  }
  return Ok();
}

Status Agent::Set(const api::SetRequest& request) {
  std::vector<std::string> ids;
  KRUX_ASSIGN_OR_RETURN(Ledger next, WithShares(request, &ids));
  for (const std::string& id : ids) KRUX_RETURN_IF_ERROR(CheckRoom(next, id));
  KRUX_RETURN_IF_ERROR(Commit(std::move(next)));
  for (const std::string& id : ids) {
    const LedgerContainer* entry = nullptr;
    ledger_.FindInstance(id, &entry);
    const auto living = living_.find(id);
    if (living == living_.end() || living->second.container == nullptr) continue;
    KRUX_RETURN_IF_ERROR(living->second.container->SetShares(entry->gpus));
    KRUX_LOG_INFO("shares set id={} cores={} policy={}", id, entry->gpus.front().cores,
                  ComputePolicyName(entry->gpus.front().policy));
  }
  return Ok();
}

}  // namespace krux::agent
