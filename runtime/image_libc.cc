#include "runtime/image_libc.h"

#include <fcntl.h>

#include <array>
#include <optional>

namespace krux::runtime {
namespace {

// Debian and its family, then the lib64 systems, then the rest; as their loaders search.
constexpr std::array<const char*, 6> kFolders = {"/lib/x86_64-linux-gnu",
                                                 "/usr/lib/x86_64-linux-gnu",
                                                 "/lib64",
                                                 "/usr/lib64",
                                                 "/lib",
                                                 "/usr/lib"};
constexpr char kMuslLoader[] = "/lib/ld-musl-x86_64.so.1";

std::string Text(const GlibcVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

// The glibc behind a libc.so.6; nothing when it is missing, 32-bit, or no glibc.
std::optional<GlibcVersion> GlibcAt(const ImageRoot::Place& place) {
  if (place.type != ImageRoot::Type::kFile) return std::nullopt;
  const std::string path = "/proc/self/fd/" + std::to_string(place.fd.get());
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  const auto file = ElfFromFd(fd.get());
  if (!file) return std::nullopt;
  const auto version = NewestGlibc(*file);
  return version ? *version : std::nullopt;
}

Error NoGlibc(const ImageRoot& root) {
  const auto musl = root.Locate(kMuslLoader);
  if (musl && musl->type == ImageRoot::Type::kFile) {
    return Error{
        ErrorCode::kFailedPrecondition,
        "the image uses musl, whose loader can't take Krux's limiter: no GPU is given; use an "
        "image with glibc " +
            Text(kOldestGlibc) + " or newer (Debian, Ubuntu, RHEL, ...)"};
  }
  return Error{
      ErrorCode::kFailedPrecondition,
      "the image has no 64-bit glibc in a standard folder, so Krux's limiter can't be loaded: "
      "no GPU is given; use an image with glibc " +
          Text(kOldestGlibc) + " or newer"};
}

}  // namespace

Result<std::string> FindLibraryFolder(const ImageRoot& root) {
  for (const char* folder : kFolders) {
    const auto library = root.Locate(std::string(folder) + "/libc.so.6");
    if (!library) continue;  // a loop or a file on the way: the loader does not find it either
    const std::optional<GlibcVersion> version = GlibcAt(*library);
    if (!version) continue;
    if (*version < kOldestGlibc) {
      return Error{ErrorCode::kFailedPrecondition, "the image's glibc " + Text(*version) +
                                                       " is too old for Krux's limiter: no GPU is "
                                                       "given; use an image with glibc " +
                                                       Text(kOldestGlibc) + " or newer"};
    }
    KRUX_ASSIGN_OR_RETURN(const ImageRoot::Place place, root.Locate(folder));
    return place.path;
  }
  return NoGlibc(root);
}

}  // namespace krux::runtime
