#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "scheduler/engine/krux_engine.h"

namespace {

using testing::HasSubstr;

struct Answer {
  bool valid;
  krux_container container;
  std::string sentence;
};

Answer Validate(const krux_asked& asked) {
  krux_container container;
  char sentence[KRUX_MAX_SENTENCE];
  const int code = krux_validate(&asked, &container, sentence, sizeof sentence);
  return {code == KRUX_VALID, container, sentence};
}

krux_asked Gpu(int64_t gpu) {
  krux_asked asked{};
  asked.gpu = gpu;
  asked.has_gpu = 1;
  return asked;
}
krux_asked Memory(krux_asked asked, int64_t mib) {
  asked.memory_mib = mib;
  asked.has_memory = 1;
  return asked;
}
krux_asked Percent(krux_asked asked, int64_t percent) {
  asked.memory_percent = percent;
  asked.has_percent = 1;
  return asked;
}
krux_asked Cores(krux_asked asked, int64_t cores) {
  asked.cores = cores;
  asked.has_cores = 1;
  return asked;
}

TEST(Request, MemoryAndCoresOfOneGpu) {
  const Answer answer = Validate(Cores(Memory(Gpu(1), 4096), 30));
  ASSERT_TRUE(answer.valid) << answer.sentence;
  EXPECT_EQ(answer.container.gpus, 1u);
  EXPECT_EQ(answer.container.memory_mib, 4096u);
  EXPECT_EQ(answer.container.cores, 30u);
  EXPECT_EQ(answer.sentence, "");
}

TEST(Request, MemoryWithoutGpuMeansOne) {
  EXPECT_EQ(Validate(Memory({}, 1)).container.gpus, 1u);
  EXPECT_EQ(Validate(Percent({}, 1)).container.gpus, 1u);
  EXPECT_EQ(Validate(Cores({}, 1)).container.gpus, 1u);
}

TEST(Request, GpuAloneIsWholeWithAllItsTime) {
  const Answer answer = Validate(Gpu(2));
  ASSERT_TRUE(answer.valid);
  EXPECT_EQ(answer.container.memory_mib, 0u);
  EXPECT_EQ(answer.container.memory_percent, 0u);
  EXPECT_EQ(answer.container.cores, 100u);
}

TEST(Request, WholeGpuKeepsTheCoresThatAreGiven) {
  EXPECT_EQ(Validate(Cores(Gpu(1), 50)).container.cores, 50u);
}

TEST(Request, MemoryWithoutCoresGuaranteesNoTime) {
  EXPECT_EQ(Validate(Memory(Gpu(1), 10)).container.cores, 0u);
}

TEST(Request, NothingAskedIsNoGpu) {
  EXPECT_TRUE(Validate({}).valid);
  EXPECT_EQ(Validate({}).container.gpus, 0u);
  EXPECT_TRUE(Validate(Gpu(0)).valid);
  EXPECT_EQ(Validate(Gpu(0)).container.gpus, 0u);
}

TEST(Request, RefusalsSayWhatToWrite) {
  struct Row {
    krux_asked asked;
    const char* part;
  };
  const Row rows[] = {
      {Memory(Gpu(0), 4096), "write krux.io/gpu: 1"},
      {Gpu(-1), "1 to 16 GPUs"},
      {Gpu(17), "1 to 16 GPUs"},
      {Memory(Gpu(1), 0), "write the MiB"},
      {Memory(Gpu(1), -5), "write the MiB"},
      {Memory(Gpu(1), 4LL << 30), "write 4096 if you mean"},
      {Percent(Gpu(1), 0), "1 to 100 percent"},
      {Percent(Gpu(1), 101), "1 to 100 percent"},
      {Percent(Memory(Gpu(1), 100), 10), "keep one of them"},
      {Cores(Gpu(1), 0), "1 to 100 percent"},
      {Cores(Gpu(1), 101), "1 to 100 percent"},
      {Cores(Gpu(1), INT64_MIN), "1 to 100 percent"},
      {Memory(Gpu(1), INT64_MAX), "more than any GPU has"},
  };
  for (const Row& row : rows) {
    const Answer answer = Validate(row.asked);
    EXPECT_FALSE(answer.valid) << row.part;
    EXPECT_THAT(answer.sentence, HasSubstr(row.part));
    EXPECT_EQ(answer.container.gpus, 0u);
  }
}

TEST(Request, SentenceIsCutToTheBuffer) {
  const krux_asked asked = Gpu(99);
  krux_container container;
  char sentence[8];
  EXPECT_EQ(krux_validate(&asked, &container, sentence, sizeof sentence), KRUX_INVALID);
  EXPECT_STREQ(sentence, "krux.io");
  EXPECT_EQ(krux_validate(&asked, &container, nullptr, 0), KRUX_INVALID);
}

}  // namespace
