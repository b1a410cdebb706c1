// krux-runtime: the OCI runtime in front of runc. See README.md for what it edits.
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/agent_client.h"
#include "runtime/args.h"
#include "runtime/config.h"
#include "runtime/create.h"
#include "runtime/real_runtime.h"
#include "runtime/runtime_log.h"

namespace krux::runtime {
namespace {

constexpr int kExitRefused = 1;

using Words = std::vector<std::string>;

Result<std::string> OwnPath() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  if (size < 0) return ErrnoError(errno, "finding krux-runtime's own path");
  return std::string(path, static_cast<size_t>(size));
}

Result<int> Create(const Args& args, const Words& words, const Config& config,
                   const RealRuntime& real, const RuntimeLog& log) {
  const AgentClient agent = AgentClient::ForSocket(config.agent_socket, config.timeout_seconds);
  KRUX_ASSIGN_OR_RETURN(Prepared prepared, PrepareCreate(args, config, agent, log));
  const Error failed = real.Become(words);
  Undo(prepared, args, agent);
  return failed;
}

// The container's folder beside the agent's socket tells whether the agent knows it.
bool AgentMayKnow(const Config& config, const std::string& container_id) {
  const std::string run_folder = config.agent_socket.substr(0, config.agent_socket.rfind('/'));
  struct stat about{};
  return lstat((run_folder + "/containers/" + container_id).c_str(), &about) == 0;
}

Result<int> Delete(const Args& args, const Words& words, const Config& config,
                   const RealRuntime& real, const RuntimeLog& log) {
  KRUX_ASSIGN_OR_RETURN(const int code, real.Run(words));
  // Only what is really gone is given back: a failed delete can mean that it still runs.
  if (code == 0 && AgentMayKnow(config, args.container_id)) {
    const AgentClient agent = AgentClient::ForSocket(config.agent_socket, config.timeout_seconds);
    if (const Status told = agent.TellDeleted(args.container_id); !told) {
      log.WriteInfo("telling the agent that " + args.container_id +
                    " is deleted: " + told.error().message);
    }
  }
  return code;
}

Result<int> Run(const Args& args, const Words& words, const RuntimeLog& log) {
  if (args.refusal) return *args.refusal;
  KRUX_ASSIGN_OR_RETURN(const std::string own_path, OwnPath());
  KRUX_ASSIGN_OR_RETURN(const Config config, LoadConfig(own_path));
  const char* search_path = getenv("PATH");
  KRUX_ASSIGN_OR_RETURN(const RealRuntime real,
                        RealRuntime::Find(config.runtime, search_path ? search_path : ""));
  switch (args.verb) {
    case Verb::kCreate:
      return Create(args, words, config, real, log);
    case Verb::kDelete:
      return Delete(args, words, config, real, log);
    case Verb::kPassThrough:
      break;
  }
  return real.Become(words);
}

int Main(const Words& words) {
  const Args args = ParseArgs(words);
  const RuntimeLog log(args.log_path, args.log_is_json);
  const Result<int> code = Run(args, words, log);
  if (code) return *code;
  log.WriteError(code.error());
  return kExitRefused;
}

}  // namespace
}  // namespace krux::runtime

int main(int argc, char** argv) {
  return krux::runtime::Main(krux::runtime::Words(argv + (argc > 0 ? 1 : 0), argv + argc));
}
