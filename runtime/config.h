// krux-runtime's own configuration: <path of its executable>.json if that file is there, else
// /etc/krux/runtime.json, else the defaults. Never an environment variable: the environment comes
// from whoever calls.
#ifndef KRUX_RUNTIME_CONFIG_H_
#define KRUX_RUNTIME_CONFIG_H_

#include <string>
#include <string_view>

#include "common/result.h"

namespace krux::runtime {

constexpr char kSystemConfigPath[] = "/etc/krux/runtime.json";

struct Config {
  std::string agent_socket = "/run/krux/agent.sock";
  std::string runtime = "runc";   // absolute path, or a name looked up in PATH
  int timeout_seconds = 60;       // how long create waits for the agent, 1 .. 600
  bool allow_privileged = false;  // may a container with every device of the host get a grant?
};

// {"agentSocket":"…","runtime":"…","timeoutSeconds":60,"allowPrivileged":false}; each is optional.
// Unknown keys and wrong types are refused by name.
Result<Config> ParseConfig(std::string_view text);

// Looks at the two places in order.
Result<Config> LoadConfig(const std::string& executable_path);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_CONFIG_H_
