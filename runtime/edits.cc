#include "runtime/edits.h"

#include <algorithm>

#include "protocol/names.h"
#include "runtime/image_libc.h"
#include "runtime/image_root.h"
#include "runtime/modifiers/devices.h"
#include "runtime/modifiers/environment.h"
#include "runtime/modifiers/libraries.h"
#include "runtime/modifiers/mounts.h"
#include "runtime/modifiers/preload.h"

namespace krux::runtime {
namespace {

// Without its folder the limiter has no limits to read: every CUDA program would fail, later and
// less clearly.
Status CheckAnswer(const api::CreateAnswer& answer) {
  const bool has_folder =
      std::any_of(answer.mounts.begin(), answer.mounts.end(), [](const api::Mount& mount) {
        return mount.container == names::kContainerMount && mount.read_only;
      });
  if (!has_folder || answer.limiter_path.empty()) {
    return Error{ErrorCode::kInternal,
                 "the agent's grant lacks the limiter or the container's folder; agent and runtime "
                 "must be of the same version"};
  }
  return Ok();
}

Status AddMounts(MountPlan& plan, const std::vector<api::Mount>& mounts) {
  for (const api::Mount& mount : mounts) {
    const auto access =
        mount.read_only ? MountPlan::Access::kReadOnly : MountPlan::Access::kReadWrite;
    KRUX_RETURN_IF_ERROR(plan.Bind(mount.host, mount.container, {.access = access}));
  }
  return Ok();
}

}  // namespace

Status EditWithoutGrant(Json& spec) {
  KRUX_RETURN_IF_ERROR(CleanEnvironment(spec));
  return RemoveGpuDevices(spec);
}

Status EditWithGrant(Json& spec, const api::CreateAnswer& answer, const GrantPlace& place) {
  KRUX_RETURN_IF_ERROR(CheckAnswer(answer));
  if (!place.allow_privileged && AllowsEveryDevice(spec)) {
    return Error{ErrorCode::kPermissionDenied,
                 "a privileged container can't be limited, so it gets no GPU share; take "
                 "'privileged: true' out of the pod"};
  }
  KRUX_RETURN_IF_ERROR(EditWithoutGrant(spec));
  KRUX_RETURN_IF_ERROR(MarkEnvironment(spec));
  KRUX_RETURN_IF_ERROR(AddDevices(spec, answer.device_nodes));

  KRUX_ASSIGN_OR_RETURN(const ImageRoot root, ImageRoot::Open(place.root_path));
  KRUX_ASSIGN_OR_RETURN(const std::string folder, FindLibraryFolder(root));
  KRUX_ASSIGN_OR_RETURN(const std::string preload, MergedPreload(root));
  MountPlan plan(spec, root);
  KRUX_RETURN_IF_ERROR(AddMounts(plan, answer.mounts));
  KRUX_RETURN_IF_ERROR(AddDriverFiles(plan, answer.driver_files, folder));
  KRUX_RETURN_IF_ERROR(AddLimiter(plan, answer.limiter_path));
  KRUX_RETURN_IF_ERROR(AddPreload(plan, place.bundle, preload));
  return plan.Finish();
}

}  // namespace krux::runtime
