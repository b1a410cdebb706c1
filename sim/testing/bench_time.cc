// SIM-time: tenants of one simulated card in virtual time against the same tenants of a real H200.
// One row a mix: what the tenants get together, as a share of what one has alone, here and there.
//
//   krux-bench-sim-time [--seconds N]     prints a table, then one JSON line a row on descriptor 3
//                                         when that is open (bench/sim_time/run keeps them)
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sim/testing/h200_mixes.h"

namespace krux::sim {
namespace {

// Runs programs on a new node in a folder of its own.
std::vector<TenantResult> Run(const std::vector<TenantProgram>& programs, Nanos length) {
  std::string folder = std::filesystem::temp_directory_path() / "krux-sim-time-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::exit(1);
  const Status made = CreateState(folder, NodeOptions{});
  const Result<SharedState*> node =
      made ? SharedState::Open(folder) : Result<SharedState*>(made.error());
  const Result<std::vector<TenantResult>> results =
      node ? RunTenants(*node, HostTimes{}, programs, length)
           : Result<std::vector<TenantResult>>(node.error());
  std::filesystem::remove_all(folder);
  if (results) return *results;
  std::fprintf(stderr, "sim-time: %s\n", results.error().ToString().c_str());
  std::exit(1);
}

// Length of a run in which the longest kernel ends often enough to count.
Nanos LengthFor(const std::vector<TenantProgram>& programs, Nanos least) {
  Nanos length = least;
  for (const TenantProgram& program : programs) length = std::max(length, 200 * program.kernel);
  return length;
}

double PercentOf(const Mix& mix, Nanos least) {
  static std::map<std::pair<Nanos, Nanos>, double> alone;
  const Nanos length = LengthFor(mix.programs, least);
  const std::vector<TenantResult> together = Run(mix.programs, length);
  double percent = 0;
  for (size_t i = 0; i < together.size(); ++i) {
    double& rate = alone[{mix.programs[i].kernel, mix.programs[i].launch}];
    if (rate == 0) rate = Run({mix.programs[i]}, length)[0].rounds_per_second;
    percent += 100 * together[i].rounds_per_second / rate;
  }
  return percent;
}

void Report(const std::string& name, double here, double there, const char* unit,
            const char* goal) {
  const double off = std::fabs(here - there);
  std::printf("%-40s %9.1f %9.1f %7.1f %-7s %s\n", name.c_str(), here, there, off, unit, goal);
  if (fcntl(3, F_GETFD) < 0) return;
  dprintf(3, "{\"id\":\"SIM-time\",\"case\":\"%s: %.1f here, %.1f on the H200\",\"value\":%.2f,",
          name.c_str(), here, there, off);
  dprintf(3, "\"unit\":\"%s\",\"goal\":\"%s\"}\n", unit, goal);
}

void RunAll(Nanos least) {
  std::printf("%-40s %9s %9s %7s %-7s %s\n", "tenants", "here", "H200", "off", "unit", "goal");
  for (const Mix& mix : H200Mixes()) {
    Report(mix.name, PercentOf(mix, least), mix.measured_percent, "points", "<= 3");
  }
  for (const Mix& mix : H200GuessedMixes()) {
    Report(mix.name + " (launches guessed)", PercentOf(mix, least), mix.measured_percent, "points",
           "none");
  }
  const TenantResult requests = Run({Requests(), Saturating(2'000'000, 2)}, 20 * least)[0];
  Report("requests beside a busy tenant, p50", static_cast<double>(requests.Percentile(50)) / 1e6,
         kRequestP50Ms, "ms", "none");
  Report("requests beside a busy tenant, p99", static_cast<double>(requests.Percentile(99)) / 1e6,
         kRequestP99Ms, "ms", "none");
}

}  // namespace
}  // namespace krux::sim

int main(int argc, char** argv) {
  const bool has_seconds = argc == 3 && std::string(argv[1]) == "--seconds";
  const long seconds = has_seconds ? std::strtol(argv[2], nullptr, 10) : 1;
  if ((argc != 1 && !has_seconds) || seconds < 1 || seconds > 3600) {
    std::fprintf(stderr, "usage: %s [--seconds 1..3600]\n", argv[0]);
    return 2;
  }
  krux::sim::RunAll(seconds * krux::kSecond);
  return 0;
}
