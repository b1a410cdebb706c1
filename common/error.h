// What went wrong, as a value.
//
// Every function of Krux that can fail returns Result<T> (result.h) with an Error. The code is for
// programs (stable integers, also on the wire), the message for people: it says what was tried,
// what was found and, where it is known, what to do. Each layer adds its context once with With().
//
// Thread rule: plain values. Header-only: the runtime and the limiter may use it.
#ifndef KRUX_COMMON_ERROR_H_
#define KRUX_COMMON_ERROR_H_

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace krux {

// Integers never change their meaning; new codes go to the end.
enum class ErrorCode : int {
  kInvalidArgument = 1,     // the caller's input is wrong and will stay wrong
  kNotFound = 2,            // the named thing does not exist
  kAlreadyExists = 3,       // the named thing exists and may not be made twice
  kPermissionDenied = 4,    // the caller may not do this
  kResourceExhausted = 5,   // a limit or the physical card is full
  kFailedPrecondition = 6,  // the system is not in the state that this needs
  kUnavailable = 7,         // a peer is not there now; trying again can help
  kDeadlineExceeded = 8,    // waited as long as was allowed
  kDataLoss = 9,            // stored or received data is damaged
  kUnimplemented = 10,      // Krux does not do this; it refuses instead of guessing
  kInternal = 11,           // a bug of Krux or an unexpected answer of the kernel
};

// The code's name as it appears in logs, events and messages, e.g. "INVALID_ARGUMENT".
constexpr std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case ErrorCode::kNotFound:
      return "NOT_FOUND";
    case ErrorCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case ErrorCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case ErrorCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case ErrorCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case ErrorCode::kUnavailable:
      return "UNAVAILABLE";
    case ErrorCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case ErrorCode::kDataLoss:
      return "DATA_LOSS";
    case ErrorCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case ErrorCode::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  // "<context>: <message>"; used once per layer on the way up.
  Error With(std::string_view context) const {
    return Error{code, std::string(context) + ": " + message};
  }
  // "INVALID_ARGUMENT: <message>", for logs and command lines.
  std::string ToString() const { return std::string(ErrorCodeName(code)) + ": " + message; }
};

// The one place that maps errno to an Error: "<what>: <strerror>".
inline Error ErrnoError(int error_number, std::string_view what) {
  ErrorCode code = ErrorCode::kInternal;
  switch (error_number) {
    case ENOENT:
    case ESRCH:
    case ENODEV:
    case ENXIO:
      code = ErrorCode::kNotFound;
      break;
    case EEXIST:
      code = ErrorCode::kAlreadyExists;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = ErrorCode::kPermissionDenied;
      break;
    case ENOSPC:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EDQUOT:
      code = ErrorCode::kResourceExhausted;
      break;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
      code = ErrorCode::kInvalidArgument;
      break;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EAGAIN:
    case ENOTCONN:
      code = ErrorCode::kUnavailable;
      break;
    case ETIMEDOUT:
      code = ErrorCode::kDeadlineExceeded;
      break;
    default:
      break;
  }
  return Error{code, std::string(what) + ": " + std::strerror(error_number)};
}

}  // namespace krux

#endif  // KRUX_COMMON_ERROR_H_
