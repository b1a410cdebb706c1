// Logging of the daemons: one line an event, UTC, "event key=value ...", to standard error.
// Levels: error = someone must act; warn = degraded but working; info = a state changed, never per
// call; debug = the rest. The limiter and the runtime do not use this: they link nothing heavy.
// Thread-safe.
#ifndef KRUX_COMMON_LOG_H_
#define KRUX_COMMON_LOG_H_

#include <spdlog/spdlog.h>

#include <string>

#include "common/result.h"

namespace krux {

// Call once at the start of main. `process` stands in each line; `level` is one of debug, info,
// warn, error, else kInvalidArgument that lists them.
Status InitLog(const std::string& process, const std::string& level);

}  // namespace krux

#define KRUX_LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define KRUX_LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define KRUX_LOG_WARN(...) ::spdlog::warn(__VA_ARGS__)
#define KRUX_LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)

#endif  // KRUX_COMMON_LOG_H_
