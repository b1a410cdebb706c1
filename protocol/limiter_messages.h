// Limiter <-> agent, over the socket agent.sock in the container's folder (SOCK_SEQPACKET).
// Fixed structs of little-endian integers; one struct is one message. The limiter lives in every
// process of a tenant, so there is no JSON here. The agent trusts nothing in them: sizes, indices
// and epochs are checked, and who speaks is what SO_PEERCRED says.
//
//   limiter                                   agent
//   Hello                              ->
//                                      <-     Welcome + account memfd   (or Refused, then close)
//   Event{kWant, gpu}                  ->     queue me: a launch waits or is about to begin
//                                      <-     (a lease is given in the limits page, by futex)
//                                      <-     Notice{kLeaseEnded, gpu, epoch}
//   Event{kDrained, gpu, epoch}        ->     active_epoch is 0, no work of mine is left
//   Event{kIdle, gpu, epoch}           ->     the same, by the limiter's own wish: hand on
//   Event{kContextMade, gpu}           ->     settle my context to its true size
//
// The end of the connection says that the process is gone or has exec'ed; the agent makes sure
// with a pidfd. When the agent goes, limiters reconnect and say Hello with resume_slot.
#ifndef KRUX_PROTOCOL_LIMITER_MESSAGES_H_
#define KRUX_PROTOCOL_LIMITER_MESSAGES_H_

#include <cstdint>

namespace krux::wire {

constexpr uint32_t kLimiterProtocolVersion = 1;  // one major version: old and new keep working

enum class Type : uint32_t {
  kHello = 1,
  kWelcome = 2,
  kRefused = 3,
  kEvent = 4,
  kNotice = 5,
};

struct Hello {
  Type type = Type::kHello;
  uint32_t version = kLimiterProtocolVersion;
  int32_t pid = 0;                 // as the process sees it (in its pid namespace)
  uint32_t resume_slot = kNoSlot;  // the slot it had, when it lost an earlier agent
  static constexpr uint32_t kNoSlot = UINT32_MAX;
};

struct Welcome {
  Type type = Type::kWelcome;
  uint32_t version = kLimiterProtocolVersion;
  uint32_t slot = 0;             // index into AccountPage::processes
  uint32_t account_changed = 0;  // 1: the descriptor is a new account; move the charges to it
};

struct Refused {
  Type type = Type::kRefused;
  uint32_t code = 0;      // ErrorCode
  char reason[248] = {};  // one sentence, NUL-terminated
};

enum class EventKind : uint32_t { kWant = 1, kDrained = 2, kIdle = 3, kContextMade = 4 };

struct Event {
  Type type = Type::kEvent;
  EventKind kind = EventKind::kWant;
  uint32_t gpu = 0;    // index into the pages
  uint32_t epoch = 0;  // the lease epoch meant; 0 where none is
};

enum class NoticeKind : uint32_t { kLeaseEnded = 1 };

struct Notice {
  Type type = Type::kNotice;
  NoticeKind kind = NoticeKind::kLeaseEnded;
  uint32_t gpu = 0;
  uint32_t epoch = 0;
};

static_assert(sizeof(Hello) == 16 && sizeof(Welcome) == 16 && sizeof(Refused) == 256);
static_assert(sizeof(Event) == 16 && sizeof(Notice) == 16);

}  // namespace krux::wire

#endif  // KRUX_PROTOCOL_LIMITER_MESSAGES_H_
