// Memory sizes as people write them. Bytes are uint64_t everywhere inside Krux; MiB only at the
// doors (Kubernetes quantities, grants), and then the name ends in _mib.
#ifndef KRUX_COMMON_UNITS_H_
#define KRUX_COMMON_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"

namespace krux {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;

// "4GiB", "4096MiB", "4G", "512M", "4096" (MiB) -> bytes. No fractions, no signs, no blanks; zero
// and sizes of 2^50 bytes and more are refused. The error repeats the text and shows the form.
Result<uint64_t> ParseMemory(std::string_view text);

// "4 GiB", "518.0 MiB", for tables and messages.
std::string FormatMemory(uint64_t bytes);

}  // namespace krux

#endif  // KRUX_COMMON_UNITS_H_
