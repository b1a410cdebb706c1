// The limiter's connection to its agent: the socket in the container's folder
// (protocol/limiter_messages.h). Connecting waits at most its timeout; nothing else here waits.
//
// Thread rule: Connect and Receive are called by one thread at a time (start-up, then the keeper);
// Send by any thread at any time. The descriptor number stays the same across reconnects, so a
// sender never writes to a stranger's descriptor.
#ifndef KRUX_LIMITER_LIFE_AGENT_LINK_H_
#define KRUX_LIMITER_LIFE_AGENT_LINK_H_

#include <atomic>
#include <cstdint>

#include "common/fd.h"
#include "limiter/life/problem.h"
#include "protocol/limiter_messages.h"

namespace krux::limiter {

class AgentLink {
 public:
  struct Admission {
    wire::Welcome welcome;
    UniqueFd account;
  };

  // Connects and says hello. `resume_slot` is Hello::kNoSlot the first time.
  Problem Connect(const char* folder, uint32_t resume_slot, int timeout_ms, Admission* admission);

  bool connected() const { return connected_.load(std::memory_order_acquire); }
  int fd() const { return fd_.load(std::memory_order_acquire); }

  // False when the agent is gone or its buffer is full.
  bool Send(wire::EventKind kind, uint32_t gpu, uint32_t epoch);

  enum class Received { kNotice, kNothing, kAgentGone };
  // Reads one message without waiting. Malformed messages count as nothing.
  Received Receive(wire::Notice* notice);

  // In a fork child: closes the inherited descriptor, so that the agent sees the parent's end.
  void ForgetAfterFork();

 private:
  void Adopt(UniqueFd socket);

  std::atomic<int> fd_{-1};
  std::atomic<bool> connected_{false};
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_AGENT_LINK_H_
