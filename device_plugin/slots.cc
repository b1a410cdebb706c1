#include "device_plugin/slots.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "protocol/names.h"

namespace krux::device_plugin {

std::string SlotId(int number) { return names::kSlotPrefix + std::to_string(number); }

Result<int> ParseSlotId(std::string_view id) {
  constexpr std::string_view prefix = names::kSlotPrefix;
  int number = -1;
  if (id.starts_with(prefix)) {
    const std::string_view digits = id.substr(prefix.size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    // Only the one way to write a number: no sign, no leading zero.
    if (error == std::errc() && number >= 0 && number < kMaxSlots && SlotId(number) == id) {
      return number;
    }
  }
  return Error{ErrorCode::kInvalidArgument, "device id '" + std::string(id.substr(0, 64)) +
                                                "' is not a slot of Krux (krux-<number>)"};
}

Result<std::vector<int>> ParseSlotIds(const std::vector<std::string>& ids) {
  if (ids.empty()) return Error{ErrorCode::kInvalidArgument, "no device id is named"};
  if (ids.size() > kMaxSlots) return Error{ErrorCode::kInvalidArgument, "too many device ids"};
  std::set<int> numbers;
  for (const std::string& id : ids) {
    KRUX_ASSIGN_OR_RETURN(const int number, ParseSlotId(id));
    if (!numbers.insert(number).second) {
      return Error{ErrorCode::kInvalidArgument, "device id '" + id + "' is named twice"};
    }
  }
  return std::vector<int>(numbers.begin(), numbers.end());
}

std::vector<std::string> PreferSlots(const std::vector<std::string>& available,
                                     const std::vector<std::string>& must_include, int size) {
  const auto numbers_of = [](const std::vector<std::string>& ids) {
    std::set<int> numbers;
    for (const std::string& id : ids) {
      if (const Result<int> number = ParseSlotId(id)) numbers.insert(*number);
    }
    return numbers;
  };
  const std::set<int> must = numbers_of(must_include);
  std::vector<std::string> chosen;
  const auto add = [&](int number) {
    if (static_cast<int>(chosen.size()) < size) chosen.push_back(SlotId(number));
  };
  for (const int number : must) add(number);
  for (const int number : numbers_of(available)) {
    if (!must.contains(number)) add(number);
  }
  return chosen;
}

}  // namespace krux::device_plugin
