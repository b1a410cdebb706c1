// The OCI runtime behind krux-runtime (runc or crun): finding it, and becoming it.
//
// Called by main, with no threads and no descriptors of ours left open.
#ifndef KRUX_RUNTIME_REAL_RUNTIME_H_
#define KRUX_RUNTIME_REAL_RUNTIME_H_

#include <string>
#include <vector>

#include "common/result.h"

namespace krux::runtime {

class RealRuntime {
 public:
  // `configured` is an absolute path, or a name that is looked up in `search_path` (PATH). Refused:
  // krux-runtime itself, and vendor runtimes, which hand out GPUs by the image's own environment.
  static Result<RealRuntime> Find(const std::string& configured, const std::string& search_path);

  // Replaces this process; the arguments are handed on as they came. Returns only when that failed.
  Error Become(const std::vector<std::string>& arguments) const;

  // Runs it as a child, which dies with this process, and waits. The exit code, or 128 + signal.
  Result<int> Run(const std::vector<std::string>& arguments) const;

  const std::string& path() const { return path_; }

 private:
  explicit RealRuntime(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_REAL_RUNTIME_H_
