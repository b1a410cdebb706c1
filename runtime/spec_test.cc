#include "runtime/spec.h"

#include <gtest/gtest.h>

#include "runtime/testing/temp_folder.h"

namespace krux::runtime {
namespace {

using testing::Slurp;
using testing::TempFolder;

TEST(Spec, KeepsOrderUnknownMembersAndBigNumbers) {
  const std::string text =
      R"({"zeta":1,"ociVersion":"9.9.9","alpha":{"y":[1,2],"b":null},"max":18446744073709551615,)"
      R"("min":-9223372036854775808,"text":"\u0001 \" é"})";
  EXPECT_EQ(SpecToText(ParseSpec(text).value()), text);
}

TEST(Spec, RefusesDamagedDeepAndLargeTexts) {
  struct Row {
    std::string text;
    const char* said;
  };
  const Row rows[] = {
      {"", "object"},
      {"[]", "object"},
      {R"({"a":)", "object"},
      {"{\"a\":\"\xff\"}", "object"},
      {"{\"a\":" + std::string(1000000, '['), "deeper"},
      {"{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", "deeper"},
      {std::string(kMaxSpecBytes + 1, ' '), "larger"},
  };
  for (const Row& row : rows) {
    const auto spec = ParseSpec(row.text);
    ASSERT_FALSE(spec);
    EXPECT_NE(spec.error().message.find(row.said), std::string::npos) << spec.error().message;
  }
  // Brackets inside texts are no depth.
  EXPECT_TRUE(ParseSpec(R"({"a":"\")" + std::string(1000, '[') + "\"}"));
}

TEST(Spec, MembersAreMadeOrRefusedByType) {
  Json spec = ParseSpec(R"({"linux":null,"mounts":{},"process":[]})").value();
  ASSERT_TRUE(ObjectIn(spec, "linux"));
  ASSERT_TRUE(ArrayIn(spec, "fresh"));
  EXPECT_TRUE(spec["linux"].is_object());
  EXPECT_TRUE(spec["fresh"].is_array());
  EXPECT_NE(ArrayIn(spec, "mounts").error().message.find("mounts"), std::string::npos);
  EXPECT_NE(ObjectIn(spec, "process").error().message.find("process"), std::string::npos);
}

TEST(SpecFile, SavesInOneStepKeepsTheModeAndRestoresEveryByte) {
  TempFolder bundle;
  const std::string text = "{ \"root\" : {\"path\":\"rootfs\"} }\n";
  const std::string path = bundle.File("config.json", text);
  chmod(path.c_str(), 0640);
  auto file = SpecFile::Load(bundle.path());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->RootPath().value(), bundle / "rootfs");
  file->spec()["hostname"] = "x";
  ASSERT_TRUE(file->Save());
  EXPECT_EQ(Slurp(path), R"({"root":{"path":"rootfs"},"hostname":"x"})");
  struct stat about{};
  ASSERT_EQ(stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0640u);
  ASSERT_TRUE(file->Restore());
  EXPECT_EQ(Slurp(path), text);
}

TEST(SpecFile, RootPathIsCheckedAndMayBeAbsolute) {
  TempFolder bundle;
  const auto root_of = [&](const char* text) {
    bundle.File("config.json", text);
    return SpecFile::Load(bundle.path()).value().RootPath();
  };
  EXPECT_EQ(root_of(R"({"root":{"path":"/var/lib/x"}})").value(), "/var/lib/x");
  EXPECT_FALSE(root_of("{}"));
  EXPECT_FALSE(root_of(R"({"root":7})"));
  EXPECT_FALSE(root_of(R"({"root":{"path":""}})"));
}

TEST(SpecFile, MissingFileNamesItself) {
  const auto file = SpecFile::Load("/nonexistent");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("/nonexistent/config.json"), std::string::npos);
}

}  // namespace
}  // namespace krux::runtime
