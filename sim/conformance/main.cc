// krux-conformance: asks a driver and an NVML several hundred small questions, records the answers
// or compares them with a recording. README.md in this folder says how to record a card.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "sim/conformance/recording.h"
#include "sim/conformance/runner.h"

namespace krux::sim::conformance {
namespace {

struct Options {
  std::string record, compare, known, only, child, helper;
  int descriptor = 1;
  int seconds_per_case = 20;
  bool list = false;
  bool describe = false;
};

std::vector<Case> ChosenCases(const std::string& only) {
  std::vector<Case> cases = AllCases();
  std::erase_if(cases, [&only](const Case& one) {
    return std::string_view(one.id).substr(0, only.size()) != only;
  });
  return cases;
}

void PrintDifferences(const Comparison& comparison, const Answers& recorded, const Answers& here) {
  for (const std::string& id : comparison.unexplained) {
    std::printf("DIFFERS %s\n  recorded: %s\n  here:     %s\n", id.c_str(), recorded.at(id).c_str(),
                here.at(id).c_str());
  }
  for (const std::string& id : comparison.stale) {
    std::printf("STALE %s: is equal now, remove it from the list of differences\n", id.c_str());
  }
  for (const std::string& id : comparison.unrecorded) {
    std::printf("UNRECORDED %s: %s\n", id.c_str(), here.at(id).c_str());
  }
  const double percent = comparison.compared == 0 ? 0.0
                                                  : 100.0 * static_cast<double>(comparison.equal) /
                                                        static_cast<double>(comparison.compared);
  std::printf(
      "conformance: %zu cases compared, %zu equal (%.2f %%), %zu explained, %zu not, "
      "%zu without a recorded answer, %zu that crashed the recorded driver\n",
      comparison.compared, comparison.equal, percent, comparison.explained,
      comparison.unexplained.size(), comparison.unrecorded.size(), comparison.crashed);
}

int CompareWith(const Options& options, const std::vector<Case>& cases) {
  Recording recorded;
  Recording known;
  std::string error;
  if (!ReadRecording(options.compare, recorded, error) ||
      (!options.known.empty() && !ReadRecording(options.known, known, error))) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 2;
  }
  const Answers here = RunCases(cases, options.seconds_per_case);
  const Comparison comparison = Compare(recorded.answers, here, known.answers);
  PrintDifferences(comparison, recorded.answers, here);
  return comparison.unexplained.empty() && comparison.stale.empty() ? 0 : 1;
}

int Record(const Options& options, const std::vector<Case>& cases) {
  Recording recording;
  recording.head = DescribeMachine();
  recording.answers = RunCases(cases, options.seconds_per_case);
  recording.head.emplace_back("cases", std::to_string(recording.answers.size()));
  if (!WriteRecording(options.record, recording, cases)) {
    std::fprintf(stderr, "%s: cannot be written\n", options.record.c_str());
    return 2;
  }
  return 0;
}

int Main(const Options& options) {
  if (!options.helper.empty()) return Helper(options.helper);
  if (!options.child.empty()) {
    RunInChild(options.child, options.descriptor);
    return 0;
  }
  if (options.describe) {
    PrintMachine();
    return 0;
  }
  const std::vector<Case> cases = ChosenCases(options.only);
  if (options.list) {
    for (const Case& one : cases) std::printf("%s\n", one.id);
    return 0;
  }
  if (!options.compare.empty()) return CompareWith(options, cases);
  if (!options.record.empty()) return Record(options, cases);
  for (const auto& [id, answer] : RunCases(cases, options.seconds_per_case)) {
    std::printf("%s\t%s\n", id.c_str(), answer.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace krux::sim::conformance

int main(int argc, char** argv) {
  krux::sim::conformance::Options options;
  CLI::App app("Asks the CUDA driver and NVML of this machine, and compares with a recording.");
  app.add_option("--record", options.record, "Write the answers to this file");
  app.add_option("--compare", options.compare, "Compare the answers with this recording");
  app.add_option("--known", options.known, "List of known differences, with reasons");
  app.add_option("--only", options.only, "Only cases whose id begins so");
  app.add_option("--seconds", options.seconds_per_case, "Longest time of one case")
      ->check(CLI::Range(1, 600));
  app.add_flag("--list", options.list, "Print the ids");
  app.add_flag("--describe", options.describe, "Print driver, CUDA version, card and date");
  app.add_option("--child", options.child)->group("");
  app.add_option("--descriptor", options.descriptor)->group("");
  app.add_option("--helper", options.helper)->group("");
  CLI11_PARSE(app, argc, argv);
  return krux::sim::conformance::Main(options);
}
