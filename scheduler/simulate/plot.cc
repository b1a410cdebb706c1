// The plot of a study, as SVG text.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "scheduler/simulate/report.h"

namespace krux::simulate {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 420;
constexpr double kLeft = 60;
constexpr double kRight = 130;
constexpr double kTop = 40;
constexpr double kBottom = 50;
// Below this little has happened yet: all policies are alike.
constexpr size_t kFirstPercent = 70;
constexpr size_t kLastPercent = 130;
constexpr std::array<const char*, 6> kColours = {"#0072b2", "#e69f00", "#009e73",
                                                 "#d55e00", "#cc79a7", "#56b4e9"};

class Frame {
 public:
  explicit Frame(double top_value) : top_(top_value) {}
  double X(double percent) const {
    return kLeft +
           (percent - kFirstPercent) / (kLastPercent - kFirstPercent) * (kWidth - kLeft - kRight);
  }
  double Y(double value) const {
    return kHeight - kBottom - std::min(value, top_) / top_ * (kHeight - kTop - kBottom);
  }
  std::string Grid() const {
    std::string out;
    for (size_t percent = kFirstPercent; percent <= kLastPercent; percent += 10) {
      out += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n",
                         X(static_cast<double>(percent)), kHeight - kBottom + 18, percent);
    }
    for (int tick = 0; tick <= static_cast<int>(top_); tick += 5) {
      const double value = tick;
      out += fmt::format(
          "<line x1='{0:.1f}' x2='{1:.1f}' y1='{2:.1f}' y2='{2:.1f}' stroke='#ddd'/>\n"
          "<text x='{3:.1f}' y='{4:.1f}' text-anchor='end'>{5:.0f}</text>\n",
          kLeft, kWidth - kRight, Y(value), kLeft - 8, Y(value) + 4, value);
    }
    return out;
  }

 private:
  double top_;
};

}  // namespace

std::string PlotOf(const StudyPlan& plan, const Cells& cells, const std::string& trace) {
  constexpr double kTopValue = 30;
  const Frame frame(kTopValue);
  std::string out = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0:.0f}' height='{1:.0f}' "
      "viewBox='0 0 {0:.0f} {1:.0f}' font-family='sans-serif' font-size='12'>\n"
      "<rect width='100%' height='100%' fill='white'/>\n"
      "<text x='{2:.0f}' y='22' font-size='14'>Unallocated GPUs, trace {3}</text>\n"
      "<text x='{4:.0f}' y='{5:.0f}' text-anchor='middle'>demand arrived, % of the GPUs</text>\n"
      "<text x='16' y='{6:.0f}' transform='rotate(-90 16 {6:.0f})' "
      "text-anchor='middle'>unallocated, % of the GPUs</text>\n",
      kWidth, kHeight, kLeft, trace, (kLeft + kWidth - kRight) / 2, kHeight - 12, kHeight / 2);
  out += frame.Grid();
  double label_y = kTop + 10;
  for (size_t i = 0; i < plan.policies.size(); ++i) {
    const Cell& cell = cells.at({trace, plan.policies[i]});
    const char* colour = kColours[i % kColours.size()];
    std::string points;
    for (size_t percent = kFirstPercent; percent <= kLastPercent; ++percent) {
      if (std::isnan(cell.unallocated[percent])) continue;
      points += fmt::format("{:.1f},{:.1f} ", frame.X(static_cast<double>(percent)),
                            frame.Y(cell.unallocated[percent]));
    }
    out += fmt::format(
        "<polyline fill='none' stroke='{}' stroke-width='2' points='{}'/>\n"
        "<text x='{:.0f}' y='{:.0f}' fill='{}'>{} {:.2f}</text>\n",
        colour, points, kWidth - kRight + 10, label_y, colour, plan.policies[i],
        cell.unallocated[kLastPercent]);
    label_y += 18;
  }
  return out + "</svg>\n";
}

}  // namespace krux::simulate
