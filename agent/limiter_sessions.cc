#include "agent/limiter_sessions.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "common/unix_socket.h"

namespace krux::agent {
namespace {

constexpr size_t kMaxConnections = kMaxPageProcesses + 64;
// So many, then it is the others' turn: a process that floods the agent delays nobody for long.
constexpr int kMessagesAtOnce = 16;
constexpr size_t kMaxProcessFile = 64 * 1024;

template <typename T>
bool Read(std::string_view bytes, T* out) {
  if (bytes.size() != sizeof(T)) return false;
  std::memcpy(out, bytes.data(), sizeof(T));
  return true;
}

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

}  // namespace

LimiterSessions::LimiterSessions(EventLoop& loop, LeaseService& leases, Account& account,
                                 Options options, Hooks hooks)
    : loop_(loop),
      leases_(leases),
      account_(account),
      options_(std::move(options)),
      hooks_(std::move(hooks)) {}

Result<std::unique_ptr<LimiterSessions>> LimiterSessions::Open(EventLoop& loop,
                                                               LeaseService& leases,
                                                               Account& account, Options options,
                                                               Hooks hooks) {
  std::unique_ptr<LimiterSessions> sessions(
      new LimiterSessions(loop, leases, account, std::move(options), std::move(hooks)));
  sessions->ReadProcessFile();
  sessions->CreditStrangers();
  sessions->LookSoon();
  KRUX_RETURN_IF_ERROR(sessions->Listen());
  return sessions;
}

LimiterSessions::~LimiterSessions() {
  if (audit_timer_set_) loop_.Cancel(audit_timer_);
  if (look_timer_set_) loop_.Cancel(look_timer_);
  if (listener_.valid()) loop_.Forget(listener_.get());
  for (auto& [fd, connection] : connections_) loop_.Forget(fd);
  for (auto& [slot, process] : processes_) loop_.Forget(process.pidfd.get());
}

Status LimiterSessions::Listen() {
  KRUX_ASSIGN_OR_RETURN(listener_, ListenUnix(options_.socket_path, 0666));
  return loop_.Watch(listener_.get(), [this] { OnAccept(); });
}

void LimiterSessions::OnAccept() {
  while (true) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    if (connections_.size() >= kMaxConnections) continue;  // closed: it tries again later
    const int number = fd.get();
    if (!loop_.Watch(number, [this, number] { OnReadable(number); })) continue;
    connections_[number].fd = std::make_shared<UniqueFd>(std::move(fd));
  }
}

void LimiterSessions::OnReadable(int fd) {
  // Larger than any message of the protocol: a longer one is cut off and so refused by its size.
  char buffer[64];
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    const ssize_t n = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0 || !HandleMessage(fd, {buffer, static_cast<size_t>(n)})) return CloseConnection(fd);
  }
}

bool LimiterSessions::HandleMessage(int fd, std::string_view bytes) {
  wire::Type type{};
  if (bytes.size() < sizeof type) return false;
  std::memcpy(&type, bytes.data(), sizeof type);
  wire::Hello hello;
  wire::Event event;
  if (type == wire::Type::kHello && Read(bytes, &hello)) return OnHello(fd, hello);
  if (type == wire::Type::kEvent && Read(bytes, &event)) return OnEvent(fd, event);
  KRUX_LOG_WARN("limiter message refused container={} bytes={}", options_.tenant, bytes.size());
  return false;
}

void LimiterSessions::CloseConnection(int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  loop_.Forget(fd);
  if (found->second.has_slot) {
    const auto process = processes_.find(found->second.slot);
    // A connection's end is no process's end: the pidfd decides.
    if (process != processes_.end() && process->second.connection == fd) {
      process->second.connection = -1;
    }
  }
  connections_.erase(found);
}

void LimiterSessions::Refuse(int fd, const Error& error) {
  KRUX_LOG_WARN("limiter refused container={} reason=\"{}\"", options_.tenant, error.message);
  wire::Refused refused;
  refused.code = static_cast<uint32_t>(error.code);
  const size_t length = std::min(error.message.size(), sizeof refused.reason - 1);
  std::memcpy(refused.reason, error.message.data(), length);
  (void)SendMessage(fd, BytesOf(refused), {}, /*wait=*/false);
}

bool LimiterSessions::OnHello(int fd, const wire::Hello& hello) {
  bool account_changed = false;
  auto slot = Identify(fd, hello, &account_changed);
  if (!slot) {
    Refuse(fd, slot.error());
    return false;
  }
  if (auto attached = Attach(fd, *slot, account_changed); !attached) {
    Refuse(fd, attached.error());
    return false;
  }
  return true;
}

Result<uint32_t> LimiterSessions::Identify(int fd, const wire::Hello& hello,
                                           bool* account_changed) {
  if (hello.version != wire::kLimiterProtocolVersion) {
    return Error{ErrorCode::kUnimplemented,
                 "this agent speaks version 1 of the limiter protocol, not " +
                     std::to_string(hello.version) + ": restart the container"};
  }
  const auto connection = connections_.find(fd);
  if (connection == connections_.end() || connection->second.has_slot) {
    return Error{ErrorCode::kInvalidArgument, "a connection says hello once"};
  }
  KRUX_ASSIGN_OR_RETURN(const ucred peer, PeerOf(fd));
  // The pidfd comes first: what is read of the pid after it, while it has not ended, is true of
  // that one process.
  KRUX_ASSIGN_OR_RETURN(UniqueFd pidfd, OpenPidfd(peer.pid));
  KRUX_ASSIGN_OR_RETURN(const uint64_t start, StartTimeOf(peer.pid));
  KRUX_RETURN_IF_ERROR(hooks_.check_peer(peer));
  if (HasEnded(pidfd.get())) return Error{ErrorCode::kNotFound, "the process has ended"};
  const ProcessId id{peer.pid, start};
  const auto known = processes_.find(hello.resume_slot);
  if (known != processes_.end() && known->second.id == id && !known->second.ended) {
    *account_changed = !known->second.told_account;
    if (*account_changed) {
      (void)account_.CreditSlot(hello.resume_slot);  // the limiter brings its own figures now
      account_.ClaimSlot(hello.resume_slot, hello.pid);
    }
    known->second.told_account = true;
    return hello.resume_slot;
  }
  // It had a slot of an account that is lost, or one that nobody here knows of.
  *account_changed = hello.resume_slot != wire::Hello::kNoSlot;
  Supersede(id);
  return Claim(id, std::move(pidfd), hello.pid);
}

// The same process says a first hello again: it has exec'ed, and the driver took back what the old
// program held when its descriptors closed.
void LimiterSessions::Supersede(const ProcessId& id) {
  for (auto& [slot, process] : processes_) {
    if (!(process.id == id) || process.ended) continue;
    if (process.connection < 0) {
      // Its pid goes on to be listed for the new program, so nothing is waited for.
      process.ask_driver = false;
      OnProcessEnd(slot);
      if (account_.CreditSlot(slot)) Release(slot);
    } else {
      KRUX_LOG_WARN("second hello of a connected process container={} pid={}", options_.tenant,
                    id.pid);
    }
    return;
  }
}

Result<uint32_t> LimiterSessions::Claim(const ProcessId& id, UniqueFd pidfd,
                                        int32_t container_pid) {
  uint32_t slot = 0;
  while (slot < kMaxPageProcesses && processes_.contains(slot)) ++slot;
  if (slot == kMaxPageProcesses) {
    return Error{ErrorCode::kResourceExhausted, "a container can have " +
                                                    std::to_string(kMaxPageProcesses) +
                                                    " processes that use GPUs; end some of them"};
  }
  KRUX_RETURN_IF_ERROR(loop_.Watch(pidfd.get(), [this, slot] { OnProcessEnd(slot); }));
  account_.ClaimSlot(slot, container_pid);
  Process& process = processes_[slot];
  process.id = id;
  process.pidfd = std::move(pidfd);
  WriteProcessFile();
  KRUX_LOG_INFO("process joined container={} pid={} slot={}", options_.tenant, id.pid, slot);
  return slot;
}

Status LimiterSessions::Attach(int fd, uint32_t slot, bool account_changed) {
  Connection& connection = connections_[fd];
  connection.has_slot = true;
  connection.slot = slot;
  processes_[slot].connection = fd;
  KRUX_RETURN_IF_ERROR(leases_.ProcessJoined(
      options_.tenant, slot, [socket = connection.fd](const wire::Notice& notice) {
        // A full buffer is no loss: the limiter also sees the end of its lease in the page.
        (void)SendMessage(socket->get(), BytesOf(notice), {}, /*wait=*/false);
      }));
  wire::Welcome welcome;
  welcome.slot = slot;
  welcome.account_changed = account_changed ? 1 : 0;
  return SendMessage(fd, BytesOf(welcome), {account_.fd()}, /*wait=*/false);
}

bool LimiterSessions::OnEvent(int fd, const wire::Event& event) {
  const auto connection = connections_.find(fd);
  if (connection == connections_.end() || !connection->second.has_slot) return false;
  const uint32_t slot = connection->second.slot;
  const auto process = processes_.find(slot);
  if (process == processes_.end() || process->second.connection != fd) return false;
  if (event.gpu >= options_.gpu_count) return false;
  if (event.kind == wire::EventKind::kContextMade) {
    settles_[{slot, event.gpu}] = Sample{};
    AuditSoon(0);
    return true;
  }
  if (auto taken = leases_.OnEvent(options_.tenant, slot, event); !taken) {
    KRUX_LOG_WARN("limiter event refused container={} slot={} reason=\"{}\"", options_.tenant, slot,
                  taken.error().message);
    return false;
  }
  return true;
}

void LimiterSessions::OnProcessEnd(uint32_t slot) {
  const auto found = processes_.find(slot);
  if (found == processes_.end() || found->second.ended) return;
  Process& process = found->second;
  process.ended = true;
  loop_.Forget(process.pidfd.get());
  leases_.ProcessLeft(options_.tenant, slot);
  if (process.connection >= 0) CloseConnection(process.connection);
  AuditSoon(0);
}

void LimiterSessions::Release(uint32_t slot) {
  KRUX_LOG_INFO("process left container={} pid={} slot={}", options_.tenant,
                processes_[slot].id.pid, slot);
  for (auto it = settles_.begin(); it != settles_.end();) {
    it = it->first.slot == slot ? settles_.erase(it) : std::next(it);
  }
  for (uint32_t gpu = 0; gpu < options_.gpu_count; ++gpu) seen_.erase({slot, gpu});
  loop_.Forget(processes_[slot].pidfd.get());
  processes_.erase(slot);
  WriteProcessFile();
  if (!processes_.empty() || !hooks_.all_gone) return;
  loop_.Post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired() && processes_.empty()) hooks_.all_gone();
  });
}

std::vector<LimiterSessions::ProcessView> LimiterSessions::Snapshot() const {
  std::vector<ProcessView> views;
  for (const auto& [slot, process] : processes_) {
    views.push_back({slot, process.id.pid, process.connection >= 0, process.ended});
  }
  return views;
}

// One line a process: slot, pid, start time.
void LimiterSessions::WriteProcessFile() {
  std::ostringstream text;
  for (const auto& [slot, process] : processes_) {
    text << slot << ' ' << process.id.pid << ' ' << process.id.start << '\n';
  }
  if (auto written = WriteFileAtomically(options_.process_file, text.str(), 0600); !written) {
    KRUX_LOG_WARN("process list not kept container={} reason=\"{}\"", options_.tenant,
                  written.error().message);
  }
}

void LimiterSessions::ReadProcessFile() {
  const auto text = ReadFile(options_.process_file, kMaxProcessFile);
  if (!text) return;  // no process had connected
  std::istringstream lines(*text);
  uint32_t slot = 0;
  ProcessId id;
  while (lines >> slot >> id.pid >> id.start) {
    if (slot >= kMaxPageProcesses || processes_.contains(slot)) continue;
    Process process;
    process.id = id;
    process.told_account = !options_.account_is_new;
    auto pidfd = OpenPidfd(id.pid);
    const auto start = StartTimeOf(id.pid);
    const bool lives = pidfd.has_value() && start.has_value() && *start == id.start;
    process.ended = !lives;
    if (lives) process.pidfd = std::move(*pidfd);
    if (options_.account_is_new) account_.ClaimSlot(slot, 0);
    Process& kept = processes_[slot] = std::move(process);
    if (!lives) continue;
    if (!loop_.Watch(kept.pidfd.get(), [this, slot] { OnProcessEnd(slot); })) kept.ended = true;
    // The lease service must know of it before it connects again: it may have work on the GPU.
    if (auto joined = leases_.ProcessJoined(options_.tenant, slot, [](const wire::Notice&) {});
        !joined) {
      KRUX_LOG_WARN("process not resumed container={} slot={} reason=\"{}\"", options_.tenant, slot,
                    joined.error().message);
    }
  }
  if (!processes_.empty()) AuditSoon(0);
}

// Slots that the page calls used and nobody is known for: their processes ended before the agent
// did, or ask for a slot anew.
void LimiterSessions::CreditStrangers() {
  for (uint32_t slot = 0; slot < kMaxPageProcesses; ++slot) {
    if (processes_.contains(slot)) continue;
    if (account_.page()->processes[slot].in_use.load() != kSlotFree) {
      (void)account_.CreditSlot(slot);
    }
  }
}

}  // namespace krux::agent
