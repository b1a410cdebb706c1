// krux-bench-tenant: a plain CUDA driver API program that does what bench/gpu tells it to. It knows
// nothing of Krux. Commands come as lines on standard input, each is answered by one line of JSON:
//   calibrate us=50 [sms=33]            {"iters":N}
//   run kind=… [iters=N] [stream=own|legacy|perthread] … start=T settle=S seconds=S    figures
// (workloads.h names the kinds and keys). It ends with its standard input.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "bench/gpu/tenant/workloads.h"

namespace krux::bench {
namespace {

[[noreturn]] void Fail(const std::string& text) {
  std::fprintf(stderr, "krux-bench-tenant: %s\n", text.c_str());
  std::exit(2);
}

StreamKind ParseStream(const std::string& name) {
  if (name == "own") return StreamKind::kOwn;
  if (name == "legacy") return StreamKind::kLegacy;
  if (name == "perthread") return StreamKind::kPerThread;
  Fail("stream is own, legacy or perthread, not '" + name + "'");
}

Plan ParsePlan(std::istringstream& words) {
  Plan plan;
  const std::map<std::string, unsigned*> numbers{
      {"iters", &plan.iterations}, {"sms", &plan.multiprocessors}, {"graph", &plan.graph},
      {"batch", &plan.batch},      {"depth", &plan.depth},         {"n", &plan.n}};
  const std::map<std::string, double*> times{
      {"host_us", &plan.host_us}, {"period_ms", &plan.period_ms}, {"start", &plan.start},
      {"settle", &plan.settle},   {"seconds", &plan.seconds},     {"slot_ms", &plan.slot_ms}};
  for (std::string word; words >> word;) {
    const size_t equal = word.find('=');
    if (equal == std::string::npos) Fail("'" + word + "' is no name=value");
    const std::string name = word.substr(0, equal);
    const std::string value = word.substr(equal + 1);
    if (name == "kind") {
      plan.kind = value;
    } else if (name == "stream") {
      plan.stream = ParseStream(value);
    } else if (numbers.contains(name)) {
      *numbers.at(name) = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (times.contains(name)) {
      *times.at(name) = std::strtod(value.c_str(), nullptr);
    } else {
      Fail("no setting '" + name + "'");
    }
  }
  if (plan.depth == 0 || plan.batch == 0 || plan.seconds <= 0) Fail("depth, batch or seconds is 0");
  return plan;
}

std::string Calibrate(Card& card, std::istringstream& words) {
  double us = 0;
  unsigned multiprocessors = 0;
  for (std::string word; words >> word;) {
    if (word.starts_with("us=")) us = std::strtod(word.c_str() + 3, nullptr);
    if (word.starts_with("sms=")) {
      multiprocessors = static_cast<unsigned>(std::strtoul(word.c_str() + 4, nullptr, 10));
    }
  }
  if (us < 1) Fail("calibrate needs us=1 or more");
  return "{\"iters\":" + std::to_string(card.Calibrate(us, multiprocessors)) + "}";
}

int Main() {
  Card card;
  std::cout << "{\"ready\":true,\"sms\":" << card.multiprocessors() << "}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "run") {
      std::cout << RunPlan(card, ParsePlan(words)) << std::endl;
    } else if (command == "calibrate") {
      std::cout << Calibrate(card, words) << std::endl;
    } else {
      Fail("no command '" + command + "'");
    }
  }
  return 0;
}

}  // namespace
}  // namespace krux::bench

int main() { return krux::bench::Main(); }
