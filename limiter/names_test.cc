// Completeness as data: every name that the driver exports is handled, or stands in
// driver_names.txt with the reason why its calls change nothing that is charged. The list of
// exports is the simulated driver's (CUDA 12.2 to 13.0, from the vendor's headers).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace krux::limiter {
namespace {

std::string WithoutStreamForm(std::string name) {
  for (const std::string suffix : {"_ptsz", "_ptds"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

std::set<std::string> Exports() {
  std::ifstream file(KRUX_DRIVER_EXPORTS);
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("cu")) names.insert(line.substr(0, line.find(' ')));
  }
  return names;
}

struct Reasons {
  std::map<std::string, std::string> by_name;
  size_t listed = 0;
};

Reasons ReadReasons() {
  std::ifstream file(KRUX_LIMITER_SOURCE "/driver_names.txt");
  Reasons reasons;
  std::string reason;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) reason = line.substr(3);
    if (!line.starts_with("cu")) continue;
    ++reasons.listed;
    reasons.by_name[line] = reason;
  }
  return reasons;
}

// Whether calls of the class can change what is charged.
bool ChangesMemory(const std::string& symbol_class) {
  static const std::set<std::string> kOthers = {"kCopy", "kStream", "kCapture", "kSync"};
  return !kOthers.contains(symbol_class);
}

std::map<std::string, std::string> Handled() {
  return {
#define KRUX_HOOK(name, symbol_class, since) {#name, #symbol_class},
#include "limiter/driver_api.inc"
#undef KRUX_HOOK
  };
}

TEST(Names, EveryExportIsDecided) {
  const auto exports = Exports();
  ASSERT_GT(exports.size(), 700U);
  const auto handled = Handled();
  const Reasons reasons = ReadReasons();
  for (const std::string& name : exports) {
    const auto row = handled.find(name);
    if (row != handled.end() && ChangesMemory(row->second)) continue;
    EXPECT_TRUE(reasons.by_name.contains(WithoutStreamForm(name)))
        << name << ": handle it (driver_api.inc), or say in driver_names.txt why its calls change "
        << "nothing that is charged";
  }
}

TEST(Names, NothingIsDecidedThatIsNotThere) {
  const auto exports = Exports();
  const auto handled = Handled();
  const Reasons reasons = ReadReasons();
  EXPECT_EQ(reasons.listed, reasons.by_name.size()) << "a name is listed twice";
  for (const auto& [name, reason] : reasons.by_name) {
    EXPECT_TRUE(exports.contains(name)) << name << " is not an export";
    EXPECT_FALSE(reason.empty()) << name;
    const auto row = handled.find(name);
    EXPECT_TRUE(row == handled.end() || !ChangesMemory(row->second))
        << name << " is handled as " << row->second << " and called harmless";
  }
  for (const auto& [name, symbol_class] : handled) EXPECT_TRUE(exports.contains(name)) << name;
}

// A name is handled in all its stream forms or in none.
TEST(Names, StreamFormsGoTogether) {
  const auto exports = Exports();
  const auto handled = Handled();
  for (const std::string& name : exports) {
    const std::string base = WithoutStreamForm(name);
    if (base == name) continue;
    EXPECT_EQ(handled.contains(name), handled.contains(base)) << name;
  }
}

}  // namespace
}  // namespace krux::limiter
