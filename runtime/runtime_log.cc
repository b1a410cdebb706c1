#include "runtime/runtime_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "common/fd.h"
#include "common/file.h"

namespace krux::runtime {
namespace {

std::string Now() {
  const time_t now = time(nullptr);
  tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// A JSON text with its quotes: also the form of runc's text log.
std::string Quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Nothing can be done when a log can't be written; the exit status tells the rest.
void WriteOrDrop(int fd, const std::string& line) {
  if (fd < 0) return;
  if (const Status written = WriteAll(fd, line); !written) return;
}

}  // namespace

void RuntimeLog::Append(std::string_view level, const std::string& message) const {
  if (path_.empty()) return;
  const std::string line = json_ ? R"({"level":)" + Quoted(level) + R"(,"msg":)" + Quoted(message) +
                                       R"(,"time":")" + Now() + "\"}\n"
                                 : "time=\"" + Now() + "\" level=" + std::string(level) +
                                       " msg=" + Quoted(message) + "\n";
  const UniqueFd fd(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  WriteOrDrop(fd.get(), line);
}

void RuntimeLog::WriteError(const Error& error) const {
  const std::string message = "krux: " + error.ToString();
  Append("error", message);
  WriteOrDrop(STDERR_FILENO, message + "\n");
}

void RuntimeLog::WriteInfo(std::string_view message) const {
  Append("info", "krux: " + std::string(message));
}

}  // namespace krux::runtime
