// May this container have its GPUs now? The agent is the last arbiter: whatever a scheduler wrote,
// the sum of what pods hold on a card never passes what the card has.
//
// Thread rule: pure functions; no clock, no I/O. The caller asks again when a pod, the ledger or a
// card has changed.
#ifndef KRUX_AGENT_ADMISSION_H_
#define KRUX_AGENT_ADMISSION_H_

#include <optional>
#include <string>
#include <vector>

#include "agent/ledger.h"
#include "agent/pod_source.h"
#include "common/error.h"
#include "protocol/agent_api.h"

namespace krux::agent {

// A card of this node as admission sees it.
struct Card {
  std::string uuid;
  uint64_t memory_mib = 0;
  std::string trouble;  // empty: healthy; else why it can take no new container
};

struct NodeView {
  std::string node;
  std::vector<Card> cards;
  bool pods_known = false;  // the pod source answers and its list is complete

  const Card* FindCard(const std::string& uuid) const;
};

struct Verdict {
  enum class Kind {
    kAdmitted,  // `plan` fits: put it into the ledger
    kNoGpu,     // the container asks for none: `error.message` says why, for the log
    kWait,      // not now; `error` says what is waited for
    kRefused,   // waiting does not help: `error`
  };
  Kind kind = Kind::kRefused;
  Error error;
  LedgerPod plan;
};

// `pod` is nullptr when the pod source does not know it (yet).
Verdict AdmitContainer(const NodeView& view, const Ledger& ledger, const Pod* pod,
                       const Ledger::Place& place);

// As AdmitContainer, for the gate, where the kubelet says that the container holds GPU slots: a
// pod without the Krux runtime class or without a grant is an error there.
Verdict AdmitAtGate(const NodeView& view, const Ledger& ledger, const Pod& pod,
                    const std::string& container);

// A private container: GPUs without a UUID get the card that they fit best. kResourceExhausted
// with numbers when there is no room.
Result<LedgerPod> PlanPrivate(const NodeView& view, const Ledger& ledger, const std::string& uid,
                              const std::vector<GpuGrant>& wanted);

}  // namespace krux::agent

#endif  // KRUX_AGENT_ADMISSION_H_
