#include "gpu/library_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace krux::gpu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

void Append(std::string& out, uint32_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A cache with one entry for each path, by the layout of glibc.
std::string CacheOf(const std::vector<std::string>& paths, uint32_t flags = 0x0303) {
  std::string strings = std::string("libcuda.so.1") + '\0';
  std::string entries;
  const size_t strings_start = 48 + 24 * paths.size();
  for (const std::string& path : paths) {
    Append(entries, flags);
    Append(entries, static_cast<uint32_t>(strings_start));
    Append(entries, static_cast<uint32_t>(strings_start + strings.size()));
    for (int i = 0; i < 3; ++i) Append(entries, 0);
    strings += path + '\0';
  }
  std::string cache = "glibc-ld.so.cache1.1";
  Append(cache, static_cast<uint32_t>(paths.size()));
  for (int i = 0; i < 6; ++i) Append(cache, 0);
  return cache + entries + strings;
}

TEST(LibraryFoldersTest, ReadsTheLoadersCache) {
  const std::string cache = CacheOf({"/opt/driver/libcuda.so.1", "/usr/lib64/libcuda.so.1"});
  EXPECT_THAT(FoldersInCache(cache, "libcuda.so.1"), ElementsAre("/opt/driver", "/usr/lib64"));
  EXPECT_THAT(FoldersInCache("old part" + cache, "libcuda.so.1"),
              ElementsAre("/opt/driver", "/usr/lib64"));
}

TEST(LibraryFoldersTest, SkipsOtherNamesAndOtherMachines) {
  EXPECT_THAT(FoldersInCache(CacheOf({"/opt/driver/libcuda.so.1"}), "libc.so.6"), IsEmpty());
  EXPECT_THAT(FoldersInCache(CacheOf({"/usr/lib32/libcuda.so.1"}, 0x0003), "libcuda.so.1"),
              IsEmpty());
}

TEST(LibraryFoldersTest, SurvivesEveryCutOfACache) {
  const std::string cache = CacheOf({"/opt/driver/libcuda.so.1"});
  for (size_t size = 0; size < cache.size(); ++size) {
    EXPECT_THAT(FoldersInCache(cache.substr(0, size), "libcuda.so.1"), IsEmpty()) << size;
  }
  std::string wild = cache;
  for (size_t i = 20; i < 48 + 24; ++i) wild[i] = '\xff';
  EXPECT_THAT(FoldersInCache(wild, "libcuda.so.1"), IsEmpty());
}

TEST(LibraryFoldersTest, FallsBackToUsualFolders) {
  EXPECT_THAT(LibraryFolders("/nowhere"),
              testing::IsSupersetOf({"/usr/lib/x86_64-linux-gnu", "/usr/lib64"}));
}

}  // namespace
}  // namespace krux::gpu
