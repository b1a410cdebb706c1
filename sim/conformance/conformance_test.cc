// The simulator answers as the recorded card did, but for the differences that are listed with
// their reasons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/conformance/recording.h"
#include "sim/state/state.h"

namespace krux::sim::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Conformance : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "krux-conformance-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  std::string folder_;
};

TEST_F(Conformance, IdsAreUniqueAndEnough) {
  std::vector<std::string> ids;
  for (const Case& one : AllCases()) ids.emplace_back(one.id);
  EXPECT_GE(ids.size(), 300U);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

TEST_F(Conformance, ReadsWhatItWrote) {
  const std::vector<Case> cases = AllCases();
  Recording written;
  written.head = {{"driver", "1.2"}, {"card", "A card"}};
  written.answers[cases[1].id] = "result=OK value=5";
  const std::string path = folder_ + "/recording.tsv";
  ASSERT_TRUE(WriteRecording(path, written, cases));
  Recording read;
  std::string error;
  ASSERT_TRUE(ReadRecording(path, read, error)) << error;
  EXPECT_EQ(read.head, written.head);
  EXPECT_EQ(read.answers, written.answers);
}

TEST_F(Conformance, RefusesWhatIsNoRecording) {
  Recording read;
  std::string error;
  EXPECT_FALSE(ReadRecording(folder_ + "/none", read, error));
  EXPECT_THAT(error, HasSubstr("cannot be read"));
  EXPECT_FALSE(ReadRecording(Write("other", "a.b\tOK\n"), read, error));
  EXPECT_THAT(error, HasSubstr("is no recording"));
  EXPECT_FALSE(ReadRecording(Write("short", "# krux conformance 1\na.b\n"), read, error));
  EXPECT_THAT(error, HasSubstr(":2: has no second column"));
}

TEST_F(Conformance, ComparisonNamesEveryCaseOnce) {
  const Answers recorded = {
      {"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}, {"f", "crashed: SIGSEGV"}};
  const Answers here = {{"a", "1"}, {"b", "2"}, {"c", "2"}, {"d", "1"}, {"e", "1"}, {"f", "1"}};
  const Comparison comparison = Compare(recorded, here, {{"c", "why"}, {"d", "why"}});
  EXPECT_EQ(comparison.compared, 4U);
  EXPECT_EQ(comparison.crashed, 1U);
  EXPECT_EQ(comparison.equal, 2U);
  EXPECT_EQ(comparison.explained, 1U);
  EXPECT_THAT(comparison.unexplained, ElementsAre("b"));
  EXPECT_THAT(comparison.stale, ElementsAre("d"));
  EXPECT_THAT(comparison.unrecorded, ElementsAre("e"));
}

// All cases on a simulated H200, each difference from the real one listed. A process that crashes
// or hangs here is a difference like any other.
TEST_F(Conformance, TheSimulatedCardAnswersAsTheRecordedOne) {
  ASSERT_TRUE(CreateState(folder_, NodeOptions{}));
  const std::string log = folder_ + "/log";
  const std::string data = KRUX_CONFORMANCE_DATA;
  const std::string command = "KRUX_SIM_FOLDER='" + folder_ + "' LD_LIBRARY_PATH='" +
                              KRUX_SIM_LIBRARIES + "' '" + KRUX_CONFORMANCE + "' --compare '" +
                              data + "/h200-580.159.04.tsv' --known '" + data +
                              "/differences.tsv' >'" + log + "' 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream file(log);
  const std::string said((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(status, 0) << said;
  EXPECT_THAT(said, HasSubstr(" 0 without a recorded answer")) << said;
}

}  // namespace
}  // namespace krux::sim::conformance
