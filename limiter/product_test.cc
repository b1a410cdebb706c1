// What the built libkrux.so shows and needs: its exports are exactly the handled names, and it
// loads into any image with glibc 2.17.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <sstream>
#include <string>

namespace krux::limiter {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string OutputOf(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char bytes[4096];
  while (const size_t size = fread(bytes, 1, sizeof bytes, pipe)) text.append(bytes, size);
  pclose(pipe);
  return text;
}

std::set<std::string> HandledNames() {
  return {
#define KRUX_HOOK(name, symbol_class, since) #name,
#include "limiter/driver_api.inc"
#undef KRUX_HOOK
#define KRUX_NVML_HOOK(name) #name,
#include "limiter/nvml_api.inc"
#undef KRUX_NVML_HOOK
      "dlsym", "dlvsym", "dlopen", "dlmopen"};
}

TEST(Product, ExportsTheHandledNamesAndNothingElse) {
  std::istringstream lines(OutputOf("nm -D --defined-only " KRUX_LIMITER_LIBRARY));
  std::set<std::string> exported;
  std::string address, kind, name;
  while (lines >> address >> kind >> name) exported.insert(name);
  EXPECT_EQ(exported, HandledNames());
}

TEST(Product, NeedsNothingButAnOldCLibrary) {
  std::istringstream lines(OutputOf("readelf -d " KRUX_LIMITER_LIBRARY));
  std::string line;
  size_t needed = 0;
  while (std::getline(lines, line)) {
    if (line.find("(NEEDED)") == std::string::npos) continue;
    ++needed;
    EXPECT_THAT(line, HasSubstr("[libc.so.6]"));
  }
  EXPECT_GE(needed, 1U);
  std::istringstream versions(OutputOf("readelf -V " KRUX_LIMITER_LIBRARY));
  while (std::getline(versions, line)) {
    const size_t at = line.find("GLIBC_2.");
    if (at != std::string::npos) {
      EXPECT_LE(std::stoi(line.substr(at + 8)), 17) << line;
    }
  }
}

// A program without CUDA must not notice it: nothing runs when it is loaded.
TEST(Product, HasNoConstructors) {
  const std::string sections = OutputOf("readelf -SW " KRUX_LIMITER_LIBRARY);
  EXPECT_THAT(sections, HasSubstr(".dynsym"));
  EXPECT_THAT(sections, Not(HasSubstr(".init_array")));
  EXPECT_THAT(sections, Not(HasSubstr(".ctors")));
}

// What a program without CUDA has open, and how many threads: the same with the library and
// without.
TEST(Product, IsNotNoticedByProgramsWithoutCuda) {
  const std::string look = "ls /proc/self/fd /proc/self/task | grep -cv /";
  const std::string without = OutputOf("sh -c '" + look + "'");
  EXPECT_FALSE(without.empty());
  EXPECT_EQ(OutputOf("LD_PRELOAD=" KRUX_LIMITER_LIBRARY " sh -c '" + look + "' 2>&1"), without);
  EXPECT_EQ(OutputOf("LD_PRELOAD=" KRUX_LIMITER_LIBRARY " /bin/true 2>&1"), "");
}

}  // namespace
}  // namespace krux::limiter
