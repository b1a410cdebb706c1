#include "agent/admission.h"

#include <algorithm>
#include <set>
#include <utility>

#include "protocol/names.h"

namespace krux::agent {
namespace {

constexpr uint64_t kAllCores = 100;

Verdict NoGpu(const std::string& why) {
  return Verdict{Verdict::Kind::kNoGpu, Error{ErrorCode::kNotFound, why}, {}};
}
Verdict Wait(ErrorCode code, const std::string& why) {
  return Verdict{Verdict::Kind::kWait, Error{code, why}, {}};
}
Verdict Refuse(ErrorCode code, const std::string& why) {
  return Verdict{Verdict::Kind::kRefused, Error{code, why}, {}};
}

std::string Number(uint64_t value) { return std::to_string(value); }

// What is free on the card for a pod, as numbers that never go below zero.
GpuLoad FreeOn(const Card& card, const GpuLoad& used) {
  return GpuLoad{card.memory_mib - std::min(card.memory_mib, used.memory_mib),
                 kAllCores - std::min(kAllCores, used.cores)};
}

std::set<std::string> CardsOf(const LedgerPod& pod) {
  std::set<std::string> uuids;
  for (const LedgerContainer& container : pod.containers) {
    for (const GpuGrant& gpu : container.gpus) uuids.insert(gpu.uuid);
  }
  return uuids;
}

Verdict CheckRoom(const NodeView& view, const Ledger& ledger, LedgerPod plan) {
  for (const std::string& uuid : CardsOf(plan)) {
    const Card* card = view.FindCard(uuid);
    if (card == nullptr) {
      return Wait(ErrorCode::kUnavailable, "GPU " + uuid + " of the grant is not on node " +
                                               view.node +
                                               " now; if it does not come back, "
                                               "delete the pod");
    }
    if (!card->trouble.empty()) {
      return Wait(ErrorCode::kUnavailable, "GPU " + uuid + " is not healthy: " + card->trouble);
    }
    const GpuLoad peak = PeakOf(plan, uuid);
    const GpuLoad room = FreeOn(*card, ledger.LoadOf(uuid, plan.uid));
    if (peak.memory_mib > room.memory_mib || peak.cores > room.cores) {
      return Wait(ErrorCode::kResourceExhausted,
                  "GPU " + uuid + " has " + Number(room.memory_mib) + " of " +
                      Number(card->memory_mib) + " MiB and " + Number(room.cores) +
                      " % free, the pod's grant is " + Number(peak.memory_mib) + " MiB and " +
                      Number(peak.cores) + " %; held by " + ledger.HoldersOf(uuid, plan.uid));
    }
  }
  return Verdict{Verdict::Kind::kAdmitted, {}, std::move(plan)};
}

// The pod's grant as a ledger entry, in the pod's order of containers.
Result<LedgerPod> PlanOf(const NodeView& view, const Pod& pod, const std::string& annotation) {
  KRUX_ASSIGN_OR_RETURN(const PodGrant grant, ParseGrant(annotation));
  if (grant.pod_uid != pod.uid) {
    return Error{ErrorCode::kPermissionDenied, "the grant was given to another pod (uid " +
                                                   grant.pod_uid + ", this one is " + pod.uid +
                                                   "): only krux-scheduler may write it"};
  }
  if (grant.node != view.node) {
    return Error{
        ErrorCode::kPermissionDenied,
        "the grant is for node " + grant.node + " and this is " + view.node + ": delete the pod"};
  }
  LedgerPod plan{pod.uid, pod.name_space, pod.name, grant.generation, false, {}};
  for (const PodContainer& container : pod.containers) {
    const auto granted = grant.containers.find(container.name);
    if (granted == grant.containers.end()) continue;
    plan.containers.push_back({container.name, container.kind, granted->second, "", "", 0});
  }
  return plan;
}

// A grant may not change under living containers: they would keep what the ledger forgets.
bool ChangesUnderLiving(const LedgerPod& old, const LedgerPod& plan) {
  return std::any_of(old.containers.begin(), old.containers.end(), [&](const auto& container) {
    if (container.id.empty()) return false;
    const LedgerContainer* same = plan.Find(container.name);
    return same == nullptr || same->gpus != container.gpus;
  });
}

Verdict AdmitFromLedger(const NodeView& view, const Ledger& ledger, const Ledger::Place& place) {
  const LedgerPod* known = view.pods_known ? nullptr : ledger.FindPod(place.pod_uid);
  if (known != nullptr && known->Find(place.container) != nullptr) {
    return CheckRoom(view, ledger, *known);
  }
  if (known != nullptr) return NoGpu("the ledger has no GPU for container " + place.container);
  return Wait(ErrorCode::kUnavailable,
              std::string("the kubelet has not told the agent about this pod yet") +
                  (view.pods_known ? "" : " (its Pods API does not answer)"));
}

Verdict AdmitWithGrant(const NodeView& view, const Ledger& ledger, const Pod& pod,
                       const PodContainer& container, const std::string& annotation) {
  auto plan = PlanOf(view, pod, annotation);
  if (!plan) return Refuse(plan.error().code, plan.error().message);
  const LedgerContainer* planned = plan->Find(container.name);
  if (planned == nullptr && !container.asks_krux) {
    return NoGpu("container " + container.name + " asks for no GPU");
  }
  if (planned == nullptr) {
    return Refuse(ErrorCode::kFailedPrecondition,
                  "the grant does not name container " + container.name + ": delete the pod");
  }
  if (planned->gpus.size() != container.gpus) {
    return Refuse(ErrorCode::kFailedPrecondition,
                  "the grant gives container " + container.name + " " +
                      Number(planned->gpus.size()) + " GPUs and it asks for " +
                      Number(container.gpus) + " " + names::kResourceGpu + ": delete the pod");
  }
  const LedgerPod* old = ledger.FindPod(pod.uid);
  if (old != nullptr && ChangesUnderLiving(*old, *plan)) {
    return Refuse(ErrorCode::kFailedPrecondition,
                  "the grant was changed while containers of the pod run: delete the pod");
  }
  return CheckRoom(view, ledger, std::move(*plan));
}

const Card* BestFit(const NodeView& view, const Ledger& ledger, const GpuGrant& wanted,
                    const std::set<std::string>& taken) {
  const Card* best = nullptr;
  GpuLoad best_room;
  for (const Card& card : view.cards) {
    if (!card.trouble.empty() || taken.contains(card.uuid)) continue;
    if (!wanted.uuid.empty() && wanted.uuid != card.uuid) continue;
    const GpuLoad room = FreeOn(card, ledger.LoadOf(card.uuid));
    if (room.memory_mib < wanted.memory_mib || room.cores < wanted.cores) continue;
    if (best == nullptr || room.memory_mib < best_room.memory_mib ||
        (room.memory_mib == best_room.memory_mib && room.cores < best_room.cores)) {
      best = &card;
      best_room = room;
    }
  }
  return best;
}

std::string DescribeFree(const NodeView& view, const Ledger& ledger) {
  std::string text;
  for (const Card& card : view.cards) {
    const GpuLoad room = FreeOn(card, ledger.LoadOf(card.uuid));
    text += (text.empty() ? "" : "; ") + card.uuid + ": ";
    text += card.trouble.empty()
                ? Number(room.memory_mib) + " of " + Number(card.memory_mib) + " MiB and " +
                      Number(room.cores) + " % free, held by " + ledger.HoldersOf(card.uuid)
                : card.trouble;
  }
  return text.empty() ? "this node has no GPU" : text;
}

}  // namespace

const Card* NodeView::FindCard(const std::string& uuid) const {
  for (const Card& card : cards) {
    if (card.uuid == uuid) return &card;
  }
  return nullptr;
}

Verdict AdmitContainer(const NodeView& view, const Ledger& ledger, const Pod* pod,
                       const Ledger::Place& place) {
  if (pod == nullptr) return AdmitFromLedger(view, ledger, place);
  const PodContainer* container = pod->Find(place.container);
  if (container == nullptr) {
    return NoGpu("the pod's spec has no container " + place.container +
                 " (ephemeral containers get no GPU)");
  }
  if (container->asks_krux && (pod->deleting || pod->finished)) {
    return Refuse(ErrorCode::kFailedPrecondition,
                  "pod " + pod->FullName() + " is ending: nothing of it is started any more");
  }
  const auto grant = pod->annotations.find(names::kAnnotationGrant);
  if (grant != pod->annotations.end()) {
    return AdmitWithGrant(view, ledger, *pod, *container, grant->second);
  }
  if (!container->asks_krux) return NoGpu("container " + place.container + " asks for no GPU");
  return Wait(
      ErrorCode::kFailedPrecondition,
      "pod " + pod->FullName() +
          " asks for GPUs and has no grant: it was not placed by "
          "krux-scheduler; delete it and set schedulerName, or let the Krux webhook set it");
}

Verdict AdmitAtGate(const NodeView& view, const Ledger& ledger, const Pod& pod,
                    const std::string& container) {
  if (pod.runtime_class != names::kRuntimeHandler) {
    return Refuse(ErrorCode::kFailedPrecondition,
                  "pod " + pod.FullName() + " has runtimeClassName '" + pod.runtime_class +
                      "' and so would get no GPU: add runtimeClassName: " + names::kRuntimeHandler +
                      " to its spec");
  }
  Verdict verdict = AdmitContainer(view, ledger, &pod, {pod.uid, container});
  if (verdict.kind == Verdict::Kind::kNoGpu) {
    // It holds a slot, so it asked; what the agent sees of its spec must say so too.
    return Wait(ErrorCode::kFailedPrecondition, verdict.error.message);
  }
  return verdict;
}

Result<LedgerPod> PlanPrivate(const NodeView& view, const Ledger& ledger, const std::string& uid,
                              const std::vector<GpuGrant>& wanted) {
  LedgerPod plan{uid, "krux-run", uid, 0, true, {{"main", ContainerKind::kApp, {}, "", "", 0}}};
  std::set<std::string> taken;
  for (const GpuGrant& gpu : wanted) {
    const Card* card = BestFit(view, ledger, gpu, taken);
    if (card == nullptr) {
      return Error{ErrorCode::kResourceExhausted, "no GPU has room for " + Number(gpu.memory_mib) +
                                                      " MiB and " + Number(gpu.cores) + " % (" +
                                                      DescribeFree(view, ledger) + ")"};
    }
    taken.insert(card->uuid);
    plan.containers[0].gpus.push_back(gpu);
    plan.containers[0].gpus.back().uuid = card->uuid;
  }
  return plan;
}

}  // namespace krux::agent
