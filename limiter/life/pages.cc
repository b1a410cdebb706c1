#include "limiter/life/pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/fd.h"
#include "protocol/names.h"

namespace krux::limiter {
namespace {

constexpr uint64_t kSlowestTsc = 100000000, kFastestTsc = 100000000000;

bool LimitsAreIn(const char* folder, int* error) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, names::kLimitsFile);
  struct stat info{};
  if (stat(path, &info) == 0) return true;
  *error = errno;
  return false;
}

Problem MapFile(int fd, size_t size, int protection, void** memory) {
  *memory = mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (*memory == MAP_FAILED) return Problem::Because("mapping it failed: %s", strerror(errno));
  // A fork child starts anew: it must not charge or hold leases in its parent's name.
  madvise(*memory, size, MADV_DONTFORK);
  return Problem::None();
}

}  // namespace

Problem FindContainerFolder(const char* mount_point, const char** folder) {
  int error = 0;
  if (LimitsAreIn(mount_point, &error)) {
    *folder = mount_point;
    return Problem::None();
  }
  if (error != ENOENT && error != ENOTDIR) {
    return Problem::Because("can't look at %s/%s: %s", mount_point, names::kLimitsFile,
                            strerror(error));
  }
  static char from_variable[256];
  const char* value = getenv(names::kFolderVariable);
  if (value == nullptr || value[0] != '/' || strlen(value) >= sizeof from_variable) {
    return Problem::Because("this container has no GPU limits (%s/%s is not there)", mount_point,
                            names::kLimitsFile);
  }
  memcpy(from_variable, value, strlen(value) + 1);
  if (!LimitsAreIn(from_variable, &error)) {
    return Problem::Because("no limits page in %s: %s", from_variable, strerror(error));
  }
  *folder = from_variable;
  return Problem::None();
}

Problem CheckLimits(const void* bytes, size_t size) {
  if (size < sizeof(LimitsPage)) return Problem::Because("it has only %zu bytes", size);
  const auto* page = static_cast<const LimitsPage*>(bytes);
  if (page->magic != kPageMagic || page->version != kLimitsVersion) {
    return Problem::Because("it is not a limits page of version %u", kLimitsVersion);
  }
  const uint64_t tsc = page->tsc_per_second.load(std::memory_order_acquire);
  if (page->size_bytes != sizeof(LimitsPage) || page->gpu_count == 0 ||
      page->gpu_count > kMaxPageGpus || tsc < kSlowestTsc || tsc > kFastestTsc) {
    return Problem::Because("its header is wrong (size %u, %u GPUs, %llu ticks a second)",
                            page->size_bytes, page->gpu_count,
                            static_cast<unsigned long long>(tsc));
  }
  return Problem::None();
}

Problem MapLimits(const char* folder, const LimitsPage** page) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, names::kLimitsFile);
  const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return Problem::Because("opening %s: %s", path, strerror(errno));
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return Problem::Because("%s: %s", path, strerror(errno));
  if (info.st_size < static_cast<off_t>(sizeof(LimitsPage))) {
    return Problem::Because("%s is not a limits page: it has only %lld bytes", path,
                            static_cast<long long>(info.st_size));
  }
  void* memory = nullptr;
  Problem problem = MapFile(fd.get(), sizeof(LimitsPage), PROT_READ, &memory);
  if (!problem) problem = CheckLimits(memory, sizeof(LimitsPage));
  if (problem) return Problem::Because("%s is not a valid limits page: %s", path, problem.text);
  *page = static_cast<const LimitsPage*>(memory);
  return Problem::None();
}

Problem CheckAccount(const void* bytes, size_t size, uint32_t gpu_count) {
  if (size < sizeof(AccountPage)) return Problem::Because("it has only %zu bytes", size);
  const auto* page = static_cast<const AccountPage*>(bytes);
  if (page->magic != kPageMagic || page->version != kAccountVersion) {
    return Problem::Because("it is not an account of version %u", kAccountVersion);
  }
  if (page->size_bytes != sizeof(AccountPage) || page->gpu_count != gpu_count) {
    return Problem::Because("its header is wrong (size %u, %u GPUs)", page->size_bytes,
                            page->gpu_count);
  }
  return Problem::None();
}

Problem MapAccount(int fd, uint32_t gpu_count, AccountPage** page) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return Problem::Because("the account: %s", strerror(errno));
  const int seals = fcntl(fd, F_GET_SEALS);
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
  if (seals < 0 || (seals & kNeeded) != kNeeded ||
      info.st_size < static_cast<off_t>(sizeof(AccountPage))) {
    return Problem::Because("the agent's account is refused: %lld bytes, seals %d",
                            static_cast<long long>(info.st_size), seals);
  }
  void* memory = nullptr;
  Problem problem = MapFile(fd, sizeof(AccountPage), PROT_READ | PROT_WRITE, &memory);
  if (!problem) problem = CheckAccount(memory, sizeof(AccountPage), gpu_count);
  if (problem) return Problem::Because("the agent's account is refused: %s", problem.text);
  *page = static_cast<AccountPage*>(memory);
  return Problem::None();
}

}  // namespace krux::limiter
