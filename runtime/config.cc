#include "runtime/config.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "common/file.h"

namespace krux::runtime {
namespace {

constexpr size_t kMaxConfigBytes = 64 * 1024;
constexpr int kMaxTimeoutSeconds = 600;

Error Wrong(const std::string& message) { return Error{ErrorCode::kInvalidArgument, message}; }

Status ReadText(const nlohmann::json& value, const std::string& key, std::string& out) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    return Wrong("'" + key + "' must be a text that is not empty");
  }
  out = value.get<std::string>();
  return Ok();
}

Status ReadKey(const std::string& key, const nlohmann::json& value, Config& config) {
  if (key == "agentSocket") {
    KRUX_RETURN_IF_ERROR(ReadText(value, key, config.agent_socket));
    if (config.agent_socket[0] != '/') return Wrong("'agentSocket' must be an absolute path");
    return Ok();
  }
  if (key == "runtime") {
    KRUX_RETURN_IF_ERROR(ReadText(value, key, config.runtime));
    const size_t slash = config.runtime.find('/');
    if (slash != std::string::npos && slash != 0) {
      return Wrong("'runtime' must be an absolute path or a plain name");
    }
    return Ok();
  }
  if (key == "timeoutSeconds") {
    if (!value.is_number_integer() || value < 1 || value > kMaxTimeoutSeconds) {
      return Wrong("'timeoutSeconds' must be a whole number from 1 to " +
                   std::to_string(kMaxTimeoutSeconds));
    }
    config.timeout_seconds = value.get<int>();
    return Ok();
  }
  if (key == "allowPrivileged") {
    if (!value.is_boolean()) return Wrong("'allowPrivileged' must be true or false");
    config.allow_privileged = value.get<bool>();
    return Ok();
  }
  return Wrong("'" + key.substr(0, 64) +
               "' is unknown; known are agentSocket, runtime, timeoutSeconds, allowPrivileged");
}

}  // namespace

Result<Config> ParseConfig(std::string_view text) {
  const auto root = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Wrong("not a JSON object");
  Config config;
  for (const auto& [key, value] : root.items()) KRUX_RETURN_IF_ERROR(ReadKey(key, value, config));
  return config;
}

Result<Config> LoadConfig(const std::string& executable_path) {
  for (const std::string& path : {executable_path + ".json", std::string(kSystemConfigPath)}) {
    if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) continue;
    KRUX_ASSIGN_OR_RETURN(const std::string text,
                          ReadFile(path, kMaxConfigBytes).With("krux-runtime's configuration"));
    return ParseConfig(text).With("krux-runtime's configuration " + path);
  }
  return Config{};
}

}  // namespace krux::runtime
