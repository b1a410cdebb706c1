#include "scheduler/simulate/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

namespace krux::simulate {
namespace {

constexpr char kFgdPublished[] = "FGD";

const Published* PublishedOf(const Traces& traces, const std::string& trace) {
  const auto found = traces.published.find({trace, kFgdPublished});
  return found == traces.published.end() ? nullptr : &found->second;
}

// One row of figures for each trace and a last one of means.
template <typename Value>
std::string Section(const std::string& title, const StudyPlan& plan, bool with_published,
                    const Value& value) {
  std::string out = title + "\n\n| trace |" + (with_published ? " FGD published |" : "");
  std::vector<std::string> columns = plan.policies;
  if (with_published) columns.insert(columns.begin(), "");
  for (const std::string& policy : plan.policies) out += " " + policy + " |";
  out += "\n|---|";
  for (size_t i = 0; i < columns.size(); ++i) out += "---|";
  std::vector<double> sums(columns.size());
  for (const std::string& trace : plan.traces) {
    out += "\n| " + trace + " |";
    for (size_t i = 0; i < columns.size(); ++i) {
      const double x = value(trace, columns[i]);
      sums[i] += x;
      out += fmt::format(" {:.2f} |", x);
    }
  }
  if (plan.traces.size() > 1) {
    out += fmt::format("\n| **mean of {}** |", plan.traces.size());
    for (const double sum : sums) {
      out += fmt::format(" **{:.2f}** |", sum / static_cast<double>(plan.traces.size()));
    }
  }
  return out + "\n\n";
}

}  // namespace

std::string DifferencesOf(const StudyPlan& plan) {
  std::vector<std::string> parts;
  if (plan.setting.knowledge == Knowledge::kLearnt) parts.emplace_back("mix learnt");
  if (plan.setting.disturbance.random_ties) parts.emplace_back("random ties");
  if (plan.setting.disturbance.looked_at < 1) {
    parts.push_back(
        fmt::format("{:.0f} % of nodes looked at", plan.setting.disturbance.looked_at * 100));
  }
  if (plan.node_order != 0) parts.push_back(fmt::format("node order {}", plan.node_order));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string TableOf(const Traces& traces, const StudyPlan& plan, const Cells& cells) {
  std::string out;
  for (const size_t percent : {100UL, 130UL}) {
    out += Section(fmt::format("Unallocated GPUs in percent when {} % of the capacity has been "
                               "asked for (mean of {} seeds)",
                               percent, plan.seeds),
                   plan, /*with_published=*/true,
                   [&](const std::string& trace, const std::string& policy) {
                     if (policy.empty()) {
                       const Published* cell = PublishedOf(traces, trace);
                       if (cell == nullptr) return 0.0;
                       return percent == 100 ? cell->at_100 : cell->at_130;
                     }
                     return cells.at({trace, policy}).unallocated[percent];
                   });
  }
  out +=
      Section("GPUs of 8-GPU tasks that found no place, until 100 %", plan,
              /*with_published=*/false, [&](const std::string& trace, const std::string& policy) {
                return cells.at({trace, policy}).failed[kEightGpus];
              });
  return out;
}

std::string JsonLines(const Traces& traces, const StudyPlan& plan, const Cells& cells,
                      const std::string& machine, const std::string& command) {
  const std::time_t now = std::time(nullptr);
  const std::string date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
  const std::string differences = DifferencesOf(plan);
  std::string out;
  for (const auto& [key, cell] : cells) {
    const auto& [trace, policy] = key;
    const Published* published = PublishedOf(traces, trace);
    for (const size_t percent : {100UL, 130UL}) {
      nlohmann::ordered_json line;
      line["id"] = differences.empty() ? "S1" : "S2";
      line["case"] = fmt::format("{} {} at {}{}{}", trace, policy, percent,
                                 differences.empty() ? "" : ", ", differences);
      line["value"] = std::round(cell.unallocated[percent] * 1000) / 1000;
      line["unit"] = "% of GPUs unallocated";
      if (published != nullptr) {
        line["goal"] = fmt::format("<= {:.2f}",
                                   (percent == 100 ? published->at_100 : published->at_130) + 0.15);
      }
      line["command"] = command;
      line["machine"] = machine;
      line["date"] = date;
      out += line.dump() + "\n";
    }
  }
  return out;
}

}  // namespace krux::simulate
