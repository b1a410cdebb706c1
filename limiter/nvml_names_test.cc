// Completeness of NVML as data: every function of the vendor's header is answered by the limiter
// (nvml_api.inc), or stands in nvml_names.txt with the reason why the card's own answer is right.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace krux::limiter {
namespace {

std::set<std::string> FunctionsOfTheHeader() {
  std::ifstream file(KRUX_NVML_HEADER);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::regex declaration("DECLDIR\\s+(nvml\\w+)\\s*\\(");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

std::set<std::string> Answered() {
  return {
#define KRUX_NVML_HOOK(name) #name,
#include "limiter/nvml_api.inc"
#undef KRUX_NVML_HOOK
  };
}

// name -> reason; a name that stands there twice has the reason "twice".
std::map<std::string, std::string> Passed() {
  std::ifstream file(KRUX_LIMITER_SOURCE "/nvml_names.txt");
  std::map<std::string, std::string> reasons;
  std::string reason;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) reason = line.substr(3);
    if (line.starts_with("nvml") && !reasons.emplace(line, reason).second) reasons[line] = "twice";
  }
  return reasons;
}

TEST(NvmlNames, EveryFunctionIsDecided) {
  const auto answered = Answered();
  const auto passed = Passed();
  const auto functions = FunctionsOfTheHeader();
  ASSERT_GT(functions.size(), 390U);
  for (const std::string& name : functions) {
    EXPECT_NE(answered.contains(name), passed.contains(name))
        << name << ": answer it (nvml_api.inc), or say in nvml_names.txt why the card's own answer "
        << "is right in a container; not both";
  }
}

TEST(NvmlNames, NothingIsDecidedThatIsNotThere) {
  const auto functions = FunctionsOfTheHeader();
  for (const std::string& name : Answered()) EXPECT_TRUE(functions.contains(name)) << name;
  for (const auto& [name, reason] : Passed()) {
    EXPECT_TRUE(functions.contains(name)) << name << " is not in the header";
    EXPECT_FALSE(reason.empty()) << name << " has no reason";
    EXPECT_NE(reason, "twice") << name;
  }
}

}  // namespace
}  // namespace krux::limiter
