// Looks into the container's root file system without ever leaving it.
//
// The image is hostile: any component of any path can be a symbolic link that leads outside, or
// something that must not be opened (a FIFO, a device). So each component is opened by itself,
// relative to the folder before it, with O_PATH and O_NOFOLLOW, and links are followed here, as the
// container itself would follow them: absolute ones and ".." never pass the root. That needs no
// openat2 and works the same on every kernel.
//
// Thread rule: none shared; one process, one thread.
#ifndef KRUX_RUNTIME_IMAGE_ROOT_H_
#define KRUX_RUNTIME_IMAGE_ROOT_H_

#include <string>
#include <string_view>

#include "common/fd.h"
#include "common/result.h"

namespace krux::runtime {

class ImageRoot {
 public:
  enum class Type { kMissing, kFile, kFolder, kOther };

  // Where a path of the container ends up.
  struct Place {
    std::string path;  // without links, as the container sees it: "/usr/lib/libc.so.6"
    Type type = Type::kMissing;
    bool through_link = false;  // a component was a symbolic link
    UniqueFd fd;                // O_PATH; invalid when missing
  };

  static Result<ImageRoot> Open(const std::string& host_path);

  // Follows links, at most 40. What does not exist keeps its name: that is where the real runtime
  // would create it. Refused: loops, ".." behind something that is missing.
  Result<Place> Locate(std::string_view path) const;

  // The text of a regular file; kNotFound when it is missing, refused when it is something else or
  // larger than max_bytes.
  static Result<std::string> Read(const Place& place, size_t max_bytes);

 private:
  explicit ImageRoot(UniqueFd root) : root_(std::move(root)) {}

  UniqueFd root_;
};

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_IMAGE_ROOT_H_
