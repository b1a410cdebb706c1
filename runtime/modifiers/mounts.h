// The bind mounts that Krux adds, each checked against the image and the container's other mounts.
//
// Mounts are only written into the spec; the real runtime makes them, inside the container's root.
// They come last, so nothing of the container's own covers them.
#ifndef KRUX_RUNTIME_MODIFIERS_MOUNTS_H_
#define KRUX_RUNTIME_MODIFIERS_MOUNTS_H_

#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/image_root.h"
#include "runtime/spec.h"

namespace krux::runtime {

class MountPlan {
 public:
  enum class Links {
    kRefused,   // no component of the target may be a symbolic link: the tenant could swap it later
    kFollowed,  // the target is where the link leads, inside the image
  };
  enum class Access { kReadOnly, kReadWrite };
  enum class Execution { kAllowed, kDenied };  // libraries are mapped executable, data never
  struct Options {
    Access access = Access::kReadOnly;
    Execution execution = Execution::kDenied;
    Links links = Links::kRefused;
  };

  // Both outlive the plan.
  MountPlan(Json& spec, const ImageRoot& root) : spec_(spec), root_(root) {}

  // Binds `source` (a file or folder of this host, which must exist) on `target` in the container.
  // Refused: relative or unclean paths, links, a target of another type, and a target below one of
  // the container's own volumes, where the real runtime would create files in that volume. A mount
  // of the container on exactly this target is replaced.
  Status Bind(const std::string& source, const std::string& target, Options options);

  // Appends what was planned to the spec.
  Status Finish();

 private:
  Status CheckOthers(const std::string& target);

  Json& spec_;
  const ImageRoot& root_;
  std::vector<Json> planned_;
};

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_MODIFIERS_MOUNTS_H_
