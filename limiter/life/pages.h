// Mapping and checking the two shared pages (protocol/pages.h). Everything that is read from them
// later is read through these mappings; what is constant is checked here, once.
// Thread rule: functions without state. Mappings stay for the life of the process.
#ifndef KRUX_LIMITER_LIFE_PAGES_H_
#define KRUX_LIMITER_LIFE_PAGES_H_

#include "limiter/life/problem.h"
#include "protocol/pages.h"

namespace krux::limiter {

// The container's folder: the mount point where it holds a limits page, else the folder that
// names::kFolderVariable names. Returns a string that lives as long as the process.
Problem FindContainerFolder(const char* mount_point, const char** folder);

// <folder>/limits, read-only.
Problem MapLimits(const char* folder, const LimitsPage** page);

// The descriptor from Welcome. Refused unless it is large enough, sealed against shrinking and
// growing, and says that it has `gpu_count` GPUs. The caller closes the descriptor.
Problem MapAccount(int fd, uint32_t gpu_count, AccountPage** page);

// The checks alone, for tests and the fuzzer: `size` bytes at `bytes` (page-aligned).
Problem CheckLimits(const void* bytes, size_t size);
Problem CheckAccount(const void* bytes, size_t size, uint32_t gpu_count);

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_PAGES_H_
