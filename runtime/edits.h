// What becomes of a container's spec: with a grant, and without one. The order of the modifiers
// (modifiers/, one file each) is here and nowhere else.
//
// Called once per create. On an error the spec may be half edited and must not be saved.
#ifndef KRUX_RUNTIME_EDITS_H_
#define KRUX_RUNTIME_EDITS_H_

#include <string>

#include "common/result.h"
#include "protocol/agent_api.h"
#include "runtime/spec.h"

namespace krux::runtime {

// No grant: no GPU device, no variable that asks for one. Nothing is added.
Status EditWithoutGrant(Json& spec);

struct GrantPlace {
  std::string bundle;     // absolute host path: the merged ld.so.preload is written there
  std::string root_path;  // host path of the container's root file system
  bool allow_privileged = false;
};

// A grant: exactly the granted devices, the driver's libraries where the image's loader looks, the
// limiter by /etc/ld.so.preload, and the agent's folders. Refused: an image that can't load the
// limiter, and (unless allowed) a container that may open every device of the host.
Status EditWithGrant(Json& spec, const api::CreateAnswer& answer, const GrantPlace& place);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_EDITS_H_
