// The limiter's messages to people, on standard error: one line, one write, never more than a few a
// second. It lives in programs of others, so it is silent unless something was refused or failed.
// Thread-safe, allocates nothing, leaves errno as it was.
#ifndef KRUX_LIMITER_LIFE_LOG_H_
#define KRUX_LIMITER_LIFE_LOG_H_

namespace krux::limiter {

// "krux: <text>". Over ten lines a second are dropped.
void LogLine(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_LOG_H_
