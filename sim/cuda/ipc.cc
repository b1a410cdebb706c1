#include "sim/cuda/ipc.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace krux::sim {
namespace {

constexpr char kName[] = "krux-sim-card-";

}  // namespace

UniqueFd MakeSharedFile(uint32_t card, uint64_t bytes) {
  UniqueFd fd(memfd_create((kName + std::to_string(card)).c_str(), MFD_CLOEXEC));
  if (fd.valid() && ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) fd.Reset();
  return fd;
}

bool ReadSharedFile(int fd, uint32_t* card, uint64_t* bytes) {
  char target[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (readlink(link.c_str(), target, sizeof target - 1) <= 0) return false;
  constexpr char kStart[] = "/memfd:krux-sim-card-";
  if (std::strncmp(target, kStart, sizeof kStart - 1) != 0) return false;
  if (std::sscanf(target + sizeof kStart - 1, "%u", card) != 1) return false;
  struct stat info{};
  if (fstat(fd, &info) != 0 || info.st_size <= 0) return false;
  *bytes = static_cast<uint64_t>(info.st_size);
  return true;
}

UniqueFd OpenOfProcess(int32_t pid, int32_t fd) {
  if (pid <= 0 || fd < 0) return UniqueFd();
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  return UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC));
}

}  // namespace krux::sim
