#include "runtime/modifiers/preload.h"

#include "common/file.h"
#include "protocol/names.h"

namespace krux::runtime {

Result<std::string> MergedPreload(const ImageRoot& root) {
  std::string text = std::string(names::kLimiterInContainer) + "\n";
  KRUX_ASSIGN_OR_RETURN(const ImageRoot::Place place, root.Locate(kPreloadPath));
  if (place.through_link) {
    return Error{ErrorCode::kFailedPrecondition,
                 std::string("the image's ") + kPreloadPath +
                     " is, or lies behind, a symbolic link; replace the link by the file"};
  }
  if (place.type == ImageRoot::Type::kMissing) return text;
  KRUX_ASSIGN_OR_RETURN(const std::string own, ImageRoot::Read(place, kMaxPreloadBytes));
  text += own;
  return text;
}

Status AddPreload(MountPlan& plan, const std::string& bundle, const std::string& text) {
  const std::string path = bundle + "/" + kPreloadFileInBundle;
  KRUX_RETURN_IF_ERROR(WriteFileAtomically(path, text, 0644));
  return plan.Bind(path, kPreloadPath, {});
}

}  // namespace krux::runtime
