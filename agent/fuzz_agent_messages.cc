// What tenants and others send to the agent: limiter messages, requests, grants, the ledger, the
// kubelet's checkpoint, cgroup files, pods. None may crash it, whatever the bytes.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "agent/device_owners.h"
#include "agent/kubelet_pods.h"
#include "agent/ledger.h"
#include "agent/limiter_sessions.h"
#include "agent/pages.h"
#include "agent/processes.h"
#include "common/log.h"
#include "common/units.h"
#include "common/unix_socket.h"
#include "protocol/agent_api.h"
#include "protocol/fd_store.h"

namespace krux::agent {
namespace {

// A container with one GPU, to which messages are handed as from a connected process.
struct Target {
  Target() {
    spdlog::set_level(spdlog::level::off);
    if (mkdtemp(folder.data()) == nullptr) abort();
    loop = EventLoop::Make().value();
    leases = LeaseService::Start(Arbiter::Options{}).value();
    account = std::make_unique<Account>(Account::Make(1).value());
    limits =
        std::make_unique<LimitsFile>(LimitsFile::Open(folder + "/limits", {PageGpu{}}).value());
    if (!leases->AddTenant("fuzz", {"GPU-1", 0, limits->page(), account->page(), Shares{}}))
      abort();
    LimiterSessions::Options options;
    options.tenant = "fuzz";
    options.socket_path = folder + "/agent.sock";
    options.process_file = folder + "/processes";
    options.gpu_count = 1;
    options.limits_bytes = {kGiB};
    LimiterSessions::Hooks hooks;
    hooks.check_peer = [](const ucred&) { return Ok(); };
    hooks.ask_driver = [](Nanos, const LimiterSessions::MemoryAnswer& answer) {
      answer({Error{}});
    };
    hooks.context_learned = [](uint32_t, uint64_t) {};
    sessions = LimiterSessions::Open(*loop, *leases, *account, options, hooks).value();
    client = ConnectUnix(options.socket_path).value();
    loop->Post([this] { loop->Stop(); });
    loop->Run();  // once: it accepts the connection
    connection = FindAccepted(options.socket_path);
    if (connection < 0) abort();
  }
  // The agent's end of the one connection: bound to the path, and not the listener.
  static int FindAccepted(const std::string& path) {
    for (int fd = 3; fd < 256; ++fd) {
      sockaddr_un address{};
      socklen_t size = sizeof address;
      int listens = 1;
      socklen_t listens_size = sizeof listens;
      if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
      if (address.sun_family != AF_UNIX || path != address.sun_path) continue;
      if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0) continue;
      if (listens == 0) return fd;
    }
    return -1;
  }
  std::string folder = "/tmp/krux-fuzz-XXXXXX";
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<LeaseService> leases;
  std::unique_ptr<Account> account;
  std::unique_ptr<LimitsFile> limits;
  std::unique_ptr<LimiterSessions> sessions;
  UniqueFd client;
  int connection = -1;
};

void SendToSessions(std::string_view bytes) {
  static auto* const target = new Target();  // the process ends with it
  while (!bytes.empty()) {
    const size_t length = std::min<size_t>(bytes.size(), 16);
    (void)target->sessions->HandleMessage(target->connection, bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  // What the agent answered must not fill the socket.
  char answer[512];
  while (recv(target->client.get(), answer, sizeof answer, MSG_DONTWAIT) > 0) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  const std::string rest(bytes.substr(1));
  switch (bytes[0] % 8) {
    case 0:
      SendToSessions(rest);
      break;
    case 1:
      (void)api::ParseRequest(rest);
      break;
    case 2:
      (void)ParseGrant(rest);
      break;
    case 3:
      (void)Ledger::Parse(rest);
      break;
    case 4:
      (void)FindInCheckpoint(rest, {"krux-0"});
      break;
    case 5:
      (void)CgroupTextNames(rest, rest.substr(0, 8), rest);
      break;
    case 6:
      (void)ParsePod(rest);
      break;
    default: {
      fd_store::Store store;
      (void)store.Handle(Message{rest, {}});
    }
  }
  return 0;
}

}  // namespace krux::agent
