// Just enough of ELF to tell whether a file is a library that a container can load, and which glibc
// an image has. Files come from images: every offset and count is checked, nothing is mapped.
//
// Thread rule: pure functions over a reader.
#ifndef KRUX_RUNTIME_ELF_H_
#define KRUX_RUNTIME_ELF_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace krux::runtime {

// A file to look into. `read` is called with ranges inside [0, size) only.
struct ElfFile {
  uint64_t size = 0;
  std::function<Result<std::string>(uint64_t offset, size_t bytes)> read;
};
// Over a descriptor that stays open as long as the reader is used.
Result<ElfFile> ElfFromFd(int fd);
// Over bytes in memory, which outlive the reader.
ElfFile ElfFromBytes(std::string_view bytes);

// Is it a whole shared library for x86-64 Linux? The error says what is wrong: empty, no ELF file,
// 32 bits, another machine, cut off.
Status CheckLibrary(const ElfFile& file);

struct GlibcVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const GlibcVersion&) const = default;
};

// The newest GLIBC_x.y that a libc.so.6 defines; nothing when it defines none (then it is not
// glibc).
Result<std::optional<GlibcVersion>> NewestGlibc(const ElfFile& file);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_ELF_H_
