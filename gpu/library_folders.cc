#include "gpu/library_folders.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/file.h"

namespace krux::gpu {
namespace {

constexpr size_t kMaxCacheBytes = 64 * 1024 * 1024;
constexpr char kCachePath[] = "/etc/ld.so.cache";

// The cache is: CacheHeader, `count` CacheEntries, strings. Offsets count from the header. Old
// caches have a libc5 part before it, so the header is searched for.
constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";
constexpr int32_t kX8664Libc6 = 0x0303;

struct CacheHeader {
  char magic[20];
  uint32_t count;
  uint32_t strings_bytes;
  uint32_t unused[5];
};
struct CacheEntry {
  int32_t flags;
  uint32_t name;
  uint32_t path;
  uint32_t os_version;
  uint64_t hwcap;
};
static_assert(sizeof(CacheHeader) == 48 && sizeof(CacheEntry) == 24);

std::string_view TextAt(std::string_view cache, uint32_t offset) {
  if (offset >= cache.size()) return {};
  const std::string_view rest = cache.substr(offset);
  const size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

void AddOnce(std::vector<std::string>& folders, std::string folder) {
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
    folders.push_back(std::move(folder));
  }
}

}  // namespace

std::vector<std::string> FoldersInCache(std::string_view cache, std::string_view name) {
  std::vector<std::string> folders;
  const size_t start = cache.find(kCacheMagic);
  if (start == std::string_view::npos || cache.size() - start < sizeof(CacheHeader)) return folders;
  cache.remove_prefix(start);
  CacheHeader header{};
  std::memcpy(&header, cache.data(), sizeof header);
  const size_t room = (cache.size() - sizeof header) / sizeof(CacheEntry);
  for (size_t i = 0; i < std::min<size_t>(header.count, room); ++i) {
    CacheEntry entry{};
    std::memcpy(&entry, cache.data() + sizeof header + i * sizeof entry, sizeof entry);
    if (entry.flags != kX8664Libc6 || TextAt(cache, entry.name) != name) continue;
    const std::string_view path = TextAt(cache, entry.path);
    const size_t slash = path.rfind('/');
    if (slash != std::string_view::npos && slash > 0) {
      AddOnce(folders, std::string(path.substr(0, slash)));
    }
  }
  return folders;
}

std::vector<std::string> LibraryFolders(const std::string& root) {
  std::vector<std::string> folders;
  if (const Result<std::string> cache = ReadFile(root + kCachePath, kMaxCacheBytes)) {
    folders = FoldersInCache(*cache, "libcuda.so.1");
  }
  for (const char* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64",
        "/home/kubernetes/bin/nvidia/lib64", "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
        "/run/nvidia/driver/usr/lib64"}) {
    AddOnce(folders, folder);
  }
  return folders;
}

}  // namespace krux::gpu
