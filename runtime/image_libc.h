// Where an image's loader looks for libraries, and whether that loader can take the limiter.
//
// Krux's limiter comes by /etc/ld.so.preload, which glibc reads and musl ignores. An image without
// a usable glibc therefore gets no GPU: a CUDA program in it would run without limits.
#ifndef KRUX_RUNTIME_IMAGE_LIBC_H_
#define KRUX_RUNTIME_IMAGE_LIBC_H_

#include <string>

#include "common/result.h"
#include "runtime/elf.h"
#include "runtime/image_root.h"

namespace krux::runtime {

constexpr GlibcVersion kOldestGlibc = {2, 17};  // the limiter is built to load from this one on

// The folder (without links) that holds the image's 64-bit libc.so.6: its loader finds libraries
// there without a cache and without variables. The error tells musl, no C library at all, and a
// glibc that is too old apart.
Result<std::string> FindLibraryFolder(const ImageRoot& root);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_IMAGE_LIBC_H_
