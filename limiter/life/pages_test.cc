#include "limiter/life/pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "common/file.h"
#include "limiter/driver/elf_lookup.h"
#include "limiter/testing/memory_pages.h"
#include "protocol/names.h"

namespace krux::limiter {
namespace {

class PagesTest : public ::testing::Test {
 protected:
  PagesTest() {
    char name[] = "/tmp/krux-pages-test-XXXXXX";
    folder_ = mkdtemp(name);
    limits_file_ = folder_ + "/" + names::kLimitsFile;
  }
  ~PagesTest() override {
    unlink(limits_file_.c_str());
    rmdir(folder_.c_str());
    unsetenv(names::kFolderVariable);
  }
  void WriteLimits(size_t size = sizeof(LimitsPage)) {
    const std::string text(reinterpret_cast<const char*>(pages_.limits.get()), size);
    ASSERT_TRUE(WriteFileAtomically(limits_file_, text, 0644));
  }
  Problem Map() {
    const LimitsPage* page = nullptr;
    return MapLimits(folder_.c_str(), &page);
  }

  std::string folder_, limits_file_;
  MemoryPages pages_{1 << 30};
};

TEST_F(PagesTest, MapsAGoodLimitsPage) {
  WriteLimits();
  EXPECT_STREQ(Map().text, "");
}

TEST_F(PagesTest, RefusesWhatIsNoLimitsPage) {
  EXPECT_TRUE(Map());  // not there
  WriteLimits(100);
  EXPECT_TRUE(Map());
  pages_.limits->gpu_count = 17;
  WriteLimits();
  EXPECT_TRUE(Map());
  pages_.limits->gpu_count = 1;
  pages_.limits->tsc_per_second = 0;
  WriteLimits();
  EXPECT_TRUE(Map());
}

TEST_F(PagesTest, TheMountWinsOverTheVariable) {
  WriteLimits();
  setenv(names::kFolderVariable, "/somewhere/else", 1);
  const char* folder = nullptr;
  EXPECT_FALSE(FindContainerFolder(folder_.c_str(), &folder));
  EXPECT_EQ(folder, folder_);
}

TEST_F(PagesTest, TheVariableCountsWhereNothingIsMounted) {
  WriteLimits();
  setenv(names::kFolderVariable, folder_.c_str(), 1);
  const char* folder = nullptr;
  EXPECT_FALSE(FindContainerFolder("/nowhere", &folder));
  EXPECT_EQ(std::string(folder), folder_);
  setenv(names::kFolderVariable, "relative", 1);
  EXPECT_TRUE(FindContainerFolder("/nowhere", &folder));
}

TEST_F(PagesTest, AnAccountMustBeSealed) {
  const int fd = memfd_create("account", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(write(fd, pages_.account.get(), sizeof(AccountPage)),
            static_cast<ssize_t>(sizeof(AccountPage)));
  AccountPage* page = nullptr;
  EXPECT_TRUE(MapAccount(fd, 1, &page));
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_FALSE(MapAccount(fd, 1, &page));
  EXPECT_TRUE(MapAccount(fd, 2, &page));
  close(fd);
}

TEST(ElfLookup, FindsFunctionsOfTheCLibrary) {
  EXPECT_EQ(FindInObject("libc.so", "getppid"), reinterpret_cast<void*>(&getppid));
  EXPECT_EQ(FindInObject("libc.so", "no_such_function"), nullptr);
  EXPECT_EQ(FindInObject("no_such_library", "getppid"), nullptr);
  EXPECT_STREQ(ObjectNameOf(FindInObject("libc.so", "getppid")), "libc.so.6");
}

}  // namespace
}  // namespace krux::limiter
