// Result<T>: a T or an Error. See error.h for codes and the rule on context.
//
//   Result<Config> Load(const std::string& path) {
//     KRUX_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxConfigBytes));
//     return Parse(text);
//   }
//
// A class of its own over tl::expected, because gcc warns about a dropped [[nodiscard]] class but
// not about a dropped alias. Header-only.
#ifndef KRUX_COMMON_RESULT_H_
#define KRUX_COMMON_RESULT_H_

#include <tl/expected.hpp>
#include <utility>

#include "common/error.h"

namespace krux {

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using Base = tl::expected<T, Error>;
  using Base::Base;
  // A failed step's Error, or a plain value, returns as it is.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : Base(tl::unexpected<Error>(std::move(error))) {}

  // The same result with context added to its error.
  Result With(std::string_view context) && {
    if (this->has_value()) return std::move(*this);
    return this->error().With(context);
  }
};

// For functions that return nothing but may fail: `return Ok();`.
using Status = Result<void>;
inline Status Ok() { return Status(); }

}  // namespace krux

#define KRUX_CONCAT_INNER(a, b) a##b
#define KRUX_CONCAT(a, b) KRUX_CONCAT_INNER(a, b)

// Returns the error of `expr` from the calling function.
#define KRUX_RETURN_IF_ERROR(expr)                 \
  do {                                             \
    if (auto krux_status = (expr); !krux_status) { \
      return std::move(krux_status).error();       \
    }                                              \
  } while (false)

// Declares `decl` from the value of `expr`, or returns its error.
#define KRUX_ASSIGN_OR_RETURN(decl, expr) \
  KRUX_ASSIGN_OR_RETURN_INNER(KRUX_CONCAT(krux_result_, __LINE__), decl, expr)
#define KRUX_ASSIGN_OR_RETURN_INNER(tmp, decl, expr) \
  auto tmp = (expr);                                 \
  if (!tmp) return std::move(tmp).error();           \
  decl = std::move(*tmp)

#endif  // KRUX_COMMON_RESULT_H_
