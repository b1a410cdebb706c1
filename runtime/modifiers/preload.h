// /etc/ld.so.preload of the container: the limiter first, then what the image's own file names.
#ifndef KRUX_RUNTIME_MODIFIERS_PRELOAD_H_
#define KRUX_RUNTIME_MODIFIERS_PRELOAD_H_

#include <string>

#include "common/result.h"
#include "runtime/image_root.h"
#include "runtime/modifiers/mounts.h"

namespace krux::runtime {

constexpr char kPreloadPath[] = "/etc/ld.so.preload";
constexpr char kPreloadFileInBundle[] = "krux-ld.so.preload";
constexpr size_t kMaxPreloadBytes = 64 * 1024;

// The merged text. Refused: an image whose file is a link, no regular file, or too large.
Result<std::string> MergedPreload(const ImageRoot& root);

// Writes `text` into the bundle (which lives as long as the container) and mounts it.
Status AddPreload(MountPlan& plan, const std::string& bundle, const std::string& text);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_MODIFIERS_PRELOAD_H_
