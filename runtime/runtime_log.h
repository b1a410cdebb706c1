// Where krux-runtime says what went wrong: the file of --log, in the form that the caller asked
// for, and standard error. containerd shows the message of the last "error" line of that file to
// the user; CRI-O and podman show standard error.
#ifndef KRUX_RUNTIME_RUNTIME_LOG_H_
#define KRUX_RUNTIME_RUNTIME_LOG_H_

#include <string>
#include <string_view>

#include "common/error.h"

namespace krux::runtime {

class RuntimeLog {
 public:
  // An empty path: standard error only.
  RuntimeLog(std::string path, bool json) : path_(std::move(path)), json_(json) {}

  // "krux: <CODE>: <message>" to both places.
  void WriteError(const Error& error) const;
  // To the file only: what a reader of the log may want to know.
  void WriteInfo(std::string_view message) const;

 private:
  void Append(std::string_view level, const std::string& message) const;

  const std::string path_;
  const bool json_;
};

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_RUNTIME_LOG_H_
