// Unix sockets of type SOCK_SEQPACKET: one send is one message, and the end of a peer is seen at
// once. All of Krux's local protocols use them (protocol/agent_api.h, protocol/limiter_messages.h).
//
// Thread rule: functions without state. Nothing blocks longer than its timeout; SIGPIPE is never
// raised. Header-only with libc alone, so that the runtime and the limiter can use it.
#ifndef KRUX_COMMON_UNIX_SOCKET_H_
#define KRUX_COMMON_UNIX_SOCKET_H_

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "common/fd.h"
#include "common/result.h"

namespace krux {

constexpr size_t kMaxMessageBytes = 64 * 1024;  // larger messages are refused on both sides
constexpr size_t kMaxMessageFds = 4;

struct Message {
  std::string bytes;          // empty: the peer has closed
  std::vector<UniqueFd> fds;  // passed by SCM_RIGHTS, close-on-exec
};

inline Result<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{ErrorCode::kInvalidArgument,
                 "socket path '" + path + "' is empty or longer than " +
                     std::to_string(sizeof address.sun_path - 1) + " bytes"};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

// Connects to a listening socket; kUnavailable or kNotFound when nobody is there.
inline Result<UniqueFd> ConnectUnix(const std::string& path) {
  KRUX_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError(errno, "creating a socket");
  int rc = 0;
  do {
    rc = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) return ErrnoError(errno, "connecting to " + path);
  return fd;
}

// Listens on `path` with the file mode given. A socket file left by a dead process is replaced;
// one on which somebody still listens gives kAlreadyExists.
inline Result<UniqueFd> ListenUnix(const std::string& path, mode_t mode) {
  KRUX_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  if (ConnectUnix(path)) {
    return Error{ErrorCode::kAlreadyExists, "another process listens on " + path};
  }
  unlink(path.c_str());
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError(errno, "creating a socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoError(errno, "binding " + path);
  }
  if (chmod(path.c_str(), mode) != 0) return ErrnoError(errno, "setting the mode of " + path);
  if (listen(fd.get(), 128) != 0) return ErrnoError(errno, "listening on " + path);
  return fd;
}

// Who is at the other end, as the kernel says it (pids in the caller's pid namespace).
inline Result<ucred> PeerOf(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoError(errno, "asking for the peer's credentials");
  }
  return peer;
}

// Sends one message, with up to kMaxMessageFds descriptors. Never blocks on a full buffer when
// `wait` is false: kUnavailable.
inline Status SendMessage(int fd, std::string_view bytes, const std::vector<int>& fds = {},
                          bool wait = true) {
  if (bytes.empty() || bytes.size() > kMaxMessageBytes || fds.size() > kMaxMessageFds) {
    return Error{ErrorCode::kInvalidArgument, "message of " + std::to_string(bytes.size()) +
                                                  " bytes and " + std::to_string(fds.size()) +
                                                  " descriptors can't be sent"};
  }
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxMessageFds)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(fd, &header, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return ErrnoError(errno, "sending a message");
  return Ok();
}

// Receives one message. timeout_ms < 0 waits for ever, 0 not at all; kDeadlineExceeded when it is
// over. A message that was cut off (too long) gives kInvalidArgument; its descriptors are closed.
inline Result<Message> ReceiveMessage(int fd, int timeout_ms) {
  pollfd waiter{fd, POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&waiter, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return ErrnoError(errno, "waiting for a message");
  if (ready == 0) return Error{ErrorCode::kDeadlineExceeded, "no message within the time allowed"};
  Message message;
  message.bytes.resize(kMaxMessageBytes);
  iovec part{message.bytes.data(), message.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxMessageFds)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t received = 0;
  do {
    received = recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return ErrnoError(errno, "receiving a message");
  for (cmsghdr* part_header = CMSG_FIRSTHDR(&header); part_header != nullptr;
       part_header = CMSG_NXTHDR(&header, part_header)) {
    if (part_header->cmsg_level != SOL_SOCKET || part_header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part_header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int passed = -1;
      std::memcpy(&passed, CMSG_DATA(part_header) + i * sizeof(int), sizeof(int));
      message.fds.emplace_back(passed);
    }
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return Error{ErrorCode::kInvalidArgument, "a message was longer than allowed"};
  }
  message.bytes.resize(static_cast<size_t>(received));
  return message;
}

}  // namespace krux

#endif  // KRUX_COMMON_UNIX_SOCKET_H_
