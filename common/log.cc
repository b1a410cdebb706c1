#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

namespace krux {

Status InitLog(const std::string& process, const std::string& level) {
  if (level != "debug" && level != "info" && level != "warn" && level != "error") {
    return Error{ErrorCode::kInvalidArgument,
                 "log level '" + level + "' is unknown: use debug, info, warn or error"};
  }
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>(process, std::move(sink));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %n %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  return Ok();
}

}  // namespace krux
