// Why the limiter can't start, as a value without heap memory: the limiter's Result. An empty text
// means "no problem". Plain value.
#ifndef KRUX_LIMITER_LIFE_PROBLEM_H_
#define KRUX_LIMITER_LIFE_PROBLEM_H_

#include <cstdarg>
#include <cstdio>

namespace krux::limiter {

struct [[nodiscard]] Problem {
  char text[320] = {};

  explicit operator bool() const { return text[0] != '\0'; }

  static Problem None() { return {}; }
  __attribute__((format(printf, 1, 2))) static Problem Because(const char* format, ...) {
    Problem problem;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem.text, sizeof problem.text, format, arguments);
    va_end(arguments);
    return problem;
  }
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_PROBLEM_H_
