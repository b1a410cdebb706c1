// Libraries of this host that go into the container: the driver's, and the limiter.
//
// A library that is missing, empty or damaged stops the container here. The loader would only warn
// about it and go on, and the program would see the whole card.
#ifndef KRUX_RUNTIME_MODIFIERS_LIBRARIES_H_
#define KRUX_RUNTIME_MODIFIERS_LIBRARIES_H_

#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/modifiers/mounts.h"

namespace krux::runtime {

// Each driver library under its own name in `folder`, the image's library folder.
Status AddDriverFiles(MountPlan& plan, const std::vector<std::string>& files,
                      const std::string& folder);

// The limiter at its fixed path.
Status AddLimiter(MountPlan& plan, const std::string& limiter_path);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_MODIFIERS_LIBRARIES_H_
