#include "limiter/life/agent_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/clock.h"
#include "limiter/life/time.h"
#include "protocol/names.h"

namespace krux::limiter {
namespace {

constexpr Nanos kRetryEvery = 5 * kMillisecond;

// A listener whose queue is full answers EAGAIN: many processes may start at once.
Problem ConnectBefore(Nanos deadline, const sockaddr_un& address, UniqueFd* socket_out) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Problem::Because("creating a socket: %s", strerror(errno));
  for (;;) {
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) break;
    if (errno != EAGAIN && errno != EINTR) {
      return Problem::Because("the agent of this node does not answer on %s: %s", address.sun_path,
                              strerror(errno));
    }
    if (MonotonicNow() >= deadline) return Problem::Because("the agent of this node is too busy");
    SleepNanos(kRetryEvery);
  }
  *socket_out = UniqueFd(fd.Release());
  return Problem::None();
}

bool WaitReadable(int fd, Nanos deadline) {
  for (;;) {
    const Nanos left = deadline - MonotonicNow();
    if (left <= 0) return false;
    pollfd waiter{fd, POLLIN, 0};
    const int ready = poll(&waiter, 1, static_cast<int>(left / kMillisecond) + 1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// One message with at most one descriptor; further ones are closed.
ssize_t ReceiveWithFd(int fd, void* bytes, size_t size, UniqueFd* passed) {
  iovec part{bytes, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t received = recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (received < 0) return received;
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr;
       rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int one = -1;
      memcpy(&one, CMSG_DATA(rights) + i * sizeof(int), sizeof one);
      passed->Reset(one);
    }
  }
  return (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ? 0 : received;
}

Problem ReadAnswer(int fd, Nanos deadline, AgentLink::Admission* admission) {
  if (!WaitReadable(fd, deadline)) {
    return Problem::Because("the agent of this node accepted the connection but said nothing");
  }
  char answer[sizeof(wire::Refused)] = {};
  const ssize_t size = ReceiveWithFd(fd, answer, sizeof answer, &admission->account);
  wire::Refused refused;
  memcpy(&refused, answer, sizeof refused);
  if (size == sizeof refused && refused.type == wire::Type::kRefused) {
    refused.reason[sizeof refused.reason - 1] = '\0';
    return Problem::Because("the agent of this node refused: %s", refused.reason);
  }
  wire::Welcome& welcome = admission->welcome;
  memcpy(&welcome, answer, sizeof welcome);
  if (size != sizeof welcome || welcome.type != wire::Type::kWelcome ||
      welcome.version != wire::kLimiterProtocolVersion || !admission->account.valid()) {
    return Problem::Because("the agent of this node gave no valid answer");
  }
  return Problem::None();
}

}  // namespace

Problem AgentLink::Connect(const char* folder, uint32_t resume_slot, int timeout_ms,
                           Admission* admission) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length =
      snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", folder, names::kLimiterSocket);
  if (length < 0 || length >= static_cast<int>(sizeof address.sun_path)) {
    return Problem::Because("the path of the agent's socket in %s is too long", folder);
  }
  const Nanos deadline = MonotonicNow() + timeout_ms * kMillisecond;
  UniqueFd fd;
  if (Problem problem = ConnectBefore(deadline, address, &fd)) return problem;
  wire::Hello hello;
  hello.pid = getpid();
  hello.resume_slot = resume_slot;
  if (send(fd.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) {
    return Problem::Because("saying hello to the agent of this node: %s", strerror(errno));
  }
  if (Problem problem = ReadAnswer(fd.get(), deadline, admission)) return problem;
  Adopt(UniqueFd(fd.Release()));
  return Problem::None();
}

void AgentLink::Adopt(UniqueFd socket) {
  const int old = fd_.load(std::memory_order_acquire);
  if (old < 0) {
    // Above the numbers that programs take for granted or close in a loop.
    const int high = fcntl(socket.get(), F_DUPFD_CLOEXEC, 100);
    fd_.store(high >= 0 ? high : socket.Release(), std::memory_order_release);
  } else {
    dup3(socket.get(), old, O_CLOEXEC);
  }
  connected_.store(true, std::memory_order_release);
}

bool AgentLink::Send(wire::EventKind kind, uint32_t gpu, uint32_t epoch) {
  if (!connected()) return false;
  const int saved = errno;
  wire::Event event;
  event.kind = kind;
  event.gpu = gpu;
  event.epoch = epoch;
  const ssize_t sent = send(fd(), &event, sizeof event, MSG_NOSIGNAL | MSG_DONTWAIT);
  errno = saved;
  return sent == sizeof event;
}

AgentLink::Received AgentLink::Receive(wire::Notice* notice) {
  if (!connected()) return Received::kAgentGone;
  const ssize_t size = recv(fd(), notice, sizeof *notice, MSG_DONTWAIT);
  if (size == sizeof *notice && notice->type == wire::Type::kNotice) return Received::kNotice;
  if (size > 0) return Received::kNothing;
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return Received::kNothing;
  connected_.store(false, std::memory_order_release);
  return Received::kAgentGone;
}

void AgentLink::ForgetAfterFork() {
  const int old = fd_.exchange(-1);
  if (old >= 0) close(old);
  connected_.store(false, std::memory_order_relaxed);
}

}  // namespace krux::limiter
