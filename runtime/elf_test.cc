#include "runtime/elf.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "common/fd.h"
#include "runtime/testing/fake_elf.h"

namespace krux::runtime {
namespace {

using testing::FakeElf;

TEST(Elf, FindsTheNewestGlibcVersion) {
  const auto newest = [](const std::vector<std::string>& versions) {
    const std::string bytes = FakeElf(versions);
    return NewestGlibc(ElfFromBytes(bytes)).value();
  };
  EXPECT_EQ(newest({"libc.so.6", "GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.9", "GLIBC_PRIVATE"}),
            (GlibcVersion{2, 17}));
  EXPECT_EQ(newest({"GLIBC_2.12"}), (GlibcVersion{2, 12}));
  EXPECT_EQ(newest({"GLIBC_3.0", "GLIBC_2.40"}), (GlibcVersion{3, 0}));
  EXPECT_EQ(newest({"MUSL_1.2", "GLIBC_", "GLIBC_2", "GLIBC_2.", "GLIBC_x.y"}), std::nullopt);
  EXPECT_EQ(newest({}), std::nullopt);
}

TEST(Elf, ReadsThisMachinesOwnLibc) {
  const UniqueFd fd(open("/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) GTEST_SKIP() << "no libc.so.6 in Debian's place on this machine";
  const auto file = ElfFromFd(fd.get());
  ASSERT_TRUE(file);
  EXPECT_TRUE(CheckLibrary(*file));
  const auto version = NewestGlibc(*file).value();
  ASSERT_TRUE(version);
  EXPECT_EQ(*version, (GlibcVersion{__GLIBC__, __GLIBC_MINOR__}));
}

TEST(Elf, SaysWhatIsWrongWithALibrary) {
  const std::string good = FakeElf({"X"});
  const auto changed = [&](size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    return bytes;
  };
  struct Row {
    std::string bytes;
    const char* said;
  };
  const Row rows[] = {
      {"", "empty"},
      {"#!/bin/sh\n", "no ELF"},
      {std::string(100, 'x'), "no ELF"},
      {changed(EI_CLASS, ELFCLASS32), "64-bit"},
      {changed(offsetof(Elf64_Ehdr, e_machine), static_cast<char>(EM_AARCH64)), "x86-64"},
      {changed(offsetof(Elf64_Ehdr, e_type), ET_EXEC), "shared library"},
      {changed(offsetof(Elf64_Ehdr, e_phnum), 0), "segments"},
      {good.substr(0, good.size() - 1), "cut off"},
      {good.substr(0, sizeof(Elf64_Ehdr)), "cut off"},
  };
  EXPECT_TRUE(CheckLibrary(ElfFromBytes(good)));
  for (const Row& row : rows) {
    const Status usable = CheckLibrary(ElfFromBytes(row.bytes));
    ASSERT_FALSE(usable) << row.said;
    EXPECT_NE(usable.error().message.find(row.said), std::string::npos) << usable.error().message;
  }
}

// Every byte of a small library set to hostile values: an answer or an error, never a crash (ASan).
TEST(Elf, SurvivesEveryDamagedByte) {
  const std::string good = FakeElf({"GLIBC_2.2.5", "GLIBC_2.31"});
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char value : {'\0', '\x01', '\x7f', '\xff'}) {
      std::string bytes = good;
      bytes[at] = value;
      const auto version = NewestGlibc(ElfFromBytes(bytes));
      const Status usable = CheckLibrary(ElfFromBytes(bytes));
      EXPECT_TRUE(version || !version.error().message.empty());
      EXPECT_TRUE(usable || !usable.error().message.empty());
    }
  }
}

}  // namespace
}  // namespace krux::runtime
