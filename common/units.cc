#include "common/units.h"

#include <charconv>
#include <cstdio>

namespace krux {

Result<uint64_t> ParseMemory(std::string_view text) {
  const Error wrong{ErrorCode::kInvalidArgument,
                    "memory size '" + std::string(text.substr(0, 64)) +
                        "' is not a size: write for example 4GiB, 512MiB or 4096 (MiB)"};
  uint64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || number == 0) return wrong;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  uint64_t factor = 0;
  if (unit.empty() || unit == "MiB" || unit == "Mi" || unit == "M") {
    factor = kMiB;
  } else if (unit == "GiB" || unit == "Gi" || unit == "G") {
    factor = kGiB;
  } else {
    return wrong;
  }
  constexpr uint64_t kMaxBytes = 1ULL << 50;
  if (number >= kMaxBytes / factor) return wrong;
  return number * factor;
}

std::string FormatMemory(uint64_t bytes) {
  if (bytes >= kGiB && bytes % kGiB == 0) return std::to_string(bytes / kGiB) + " GiB";
  if (bytes % kMiB == 0) return std::to_string(bytes / kMiB) + " MiB";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB",
                static_cast<double>(bytes) / static_cast<double>(kMiB));
  return text;
}

}  // namespace krux
