// The environment of the container's first process. No limit and no right of Krux rests on it: a
// later `exec` brings the unedited one back. What could make other software hand out a GPU, or
// suggest limits that do not count, is taken out.
#ifndef KRUX_RUNTIME_MODIFIERS_ENVIRONMENT_H_
#define KRUX_RUNTIME_MODIFIERS_ENVIRONMENT_H_

#include <string_view>

#include "common/result.h"
#include "runtime/spec.h"

namespace krux::runtime {

// NVIDIA_* (but NVIDIA_TF32_OVERRIDE, which is about arithmetic), CUDA_*LIMIT*, KRUX_*.
bool IsGpuVariable(std::string_view name);

// Takes all of those out. LD_PRELOAD and the like stay: they are the program's own business, and
// /etc/ld.so.preload does not depend on them.
Status CleanEnvironment(Json& spec);

// What the granted container gets: NVIDIA_VISIBLE_DEVICES=void, so that no other hook adds GPUs.
Status MarkEnvironment(Json& spec);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_MODIFIERS_ENVIRONMENT_H_
