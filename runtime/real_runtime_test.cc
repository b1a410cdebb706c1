#include "runtime/real_runtime.h"

#include <gtest/gtest.h>

#include "runtime/testing/temp_folder.h"

namespace krux::runtime {
namespace {

using testing::TempFolder;

TEST(RealRuntime, IsFoundByPathOrInTheFirstFolderThatHasIt) {
  TempFolder folder;
  folder.Folder("empty");
  folder.File("plain/runc", "not executable");
  const std::string path = folder.Program("good/runc", "#!/bin/sh\n");
  EXPECT_EQ(RealRuntime::Find(path, "").value().path(), path);
  EXPECT_EQ(RealRuntime::Find(
                "runc", folder / "empty" + "::.:" + (folder / "plain") + ":" + (folder / "good"))
                .value()
                .path(),
            path);
}

TEST(RealRuntime, RefusesWhatMustNotRun) {
  TempFolder folder;
  const std::string vendor = folder.Program("nvidia-container-runtime.real", "#!/bin/sh\n");
  folder.Link(vendor, "runc");
  folder.Link("/proc/self/exe", "self");
  struct Row {
    std::string configured;
    const char* said;
  };
  const Row rows[] = {{folder / "missing", "not installed"},
                      {"no-such-runtime", "not installed"},
                      {vendor, "vendor"},
                      {folder / "runc", "vendor"},
                      {folder / "self", "itself"},
                      {folder.path(), "not installed"}};
  for (const Row& row : rows) {
    const auto found = RealRuntime::Find(row.configured, folder / "none");
    ASSERT_FALSE(found) << row.configured;
    EXPECT_NE(found.error().message.find(row.said), std::string::npos) << found.error().message;
  }
}

TEST(RealRuntime, RunsWithTheSameArgumentsAndGivesTheExitCode) {
  TempFolder folder;
  const std::string path = folder.Program("runc",
                                          "#!/bin/sh\n[ \"$1\" = 'a b' ] && [ -z \"$2\" ] && "
                                          "[ $# = 2 ] && exit 7\nkill -9 $$\n");
  const auto runtime = RealRuntime::Find(path, "");
  ASSERT_TRUE(runtime);
  EXPECT_EQ(runtime->Run({"a b", ""}).value(), 7);
  EXPECT_EQ(runtime->Run({"else"}).value(), 128 + 9);
}

}  // namespace
}  // namespace krux::runtime
