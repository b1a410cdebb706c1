// What tenants of one card get together, in virtual time, against what an H200 gave.
#include <map>

#include "sim/testing/h200_mixes.h"
#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

class TimeTest : public SimTest {
 protected:
  std::vector<TenantResult> Run(const std::vector<TenantProgram>& programs, Nanos length) {
    std::filesystem::remove_all(folder_);
    EXPECT_TRUE(CreateState(folder_, NodeOptions{}));
    Result<std::vector<TenantResult>> results =
        RunTenants(*SharedState::Open(folder_), HostTimes{}, programs, length);
    EXPECT_TRUE(results);
    return results ? *results : std::vector<TenantResult>(programs.size());
  }
};

TEST_F(TimeTest, MixesOfTenantsGetWhatTheyGetOnAnH200) {
  std::map<Nanos, double> alone;
  for (const Mix& mix : H200Mixes()) {
    double percent = 0;
    Nanos length = 100 * kMillisecond;
    for (const TenantProgram& program : mix.programs)
      length = std::max(length, 80 * program.kernel);
    const std::vector<TenantResult> together = Run(mix.programs, length);
    for (size_t i = 0; i < together.size(); ++i) {
      double& rate = alone[mix.programs[i].kernel];
      if (rate == 0) rate = Run({mix.programs[i]}, length)[0].rounds_per_second;
      percent += 100 * together[i].rounds_per_second / rate;
    }
    EXPECT_NEAR(percent, mix.measured_percent, 3) << mix.name;
  }
}

TEST_F(TimeTest, RequestsWaitForASliceBesideABusyTenant) {
  const TenantProgram busy = Saturating(2'000'000, 2);
  const TenantResult requests = Run({Requests(), busy}, 4 * kSecond)[0];
  EXPECT_NEAR(static_cast<double>(requests.Percentile(50)) / 1e6, kRequestP50Ms, 0.5);
  EXPECT_NEAR(static_cast<double>(requests.Percentile(99)) / 1e6, kRequestP99Ms, 0.5);
}

TEST_F(TimeTest, TheSameProgramsGiveTheSameFigures) {
  const std::vector<TenantProgram> programs = {ShortSynchronous(), HostGaps(), Requests()};
  const std::vector<TenantResult> first = Run(programs, 60 * kMillisecond);
  const std::vector<TenantResult> second = Run(programs, 60 * kMillisecond);
  for (size_t i = 0; i < programs.size(); ++i) EXPECT_EQ(first[i].waits, second[i].waits);
}

TEST_F(TimeTest, NobodyStarves) {
  std::vector<TenantProgram> programs = Times(8, ShortSynchronous());
  programs.push_back(Saturating(20'000'000, 2));
  for (const TenantResult& result : Run(programs, 300 * kMillisecond)) {
    EXPECT_GT(result.waits.size(), 2U);
  }
}

}  // namespace
}  // namespace krux::sim
