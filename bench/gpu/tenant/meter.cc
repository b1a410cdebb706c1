#include "bench/gpu/tenant/meter.h"

#include <time.h>

#include <algorithm>
#include <cmath>

namespace krux::bench {

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void WaitUntil(double when) {
  for (double left = when - Now(); left > 0; left = when - Now()) {
    if (left < 0.0002) continue;
    const double pause = left - 0.0001;
    timespec duration{static_cast<time_t>(pause), static_cast<long>(std::fmod(pause, 1.0) * 1e9)};
    nanosleep(&duration, nullptr);
  }
}

void Meter::Add(uint64_t count) {
  last_ = Now();
  total_ += count;
  points_.push_back({last_, total_});
}

double Meter::Window() const { return std::min(1.0, (span_.end - span_.begin) / 2); }

// Of the step function "finished so far".
double Meter::IntegralOfTotal(double from, double to) const {
  double sum = 0;
  double at = from;
  uint64_t total = TotalAt(from);
  for (const Point& point : points_) {
    if (point.time <= from) continue;
    if (point.time >= to) break;
    sum += static_cast<double>(total) * (point.time - at);
    at = point.time;
    total = point.total;
  }
  return sum + static_cast<double>(total) * (to - at);
}

uint64_t Meter::TotalAt(double time) const {
  const auto after = std::upper_bound(points_.begin(), points_.end(), time,
                                      [](double t, const Point& point) { return t < point.time; });
  return after == points_.begin() ? 0 : std::prev(after)->total;
}

double Meter::Rate() const {
  const double window = Window();
  const double slide = span_.end - span_.begin - window;
  const double late = IntegralOfTotal(span_.begin + window, span_.end);
  const double early = IntegralOfTotal(span_.begin, span_.begin + slide);
  return (late - early) / (window * slide);
}

double Meter::HighestWindow() const {
  const double window = Window();
  double worst = 0;
  for (double from = span_.begin; from + window <= span_.end; from += window / 100) {
    worst = std::max(worst, static_cast<double>(TotalAt(from + window) - TotalAt(from)) / window);
  }
  return worst;
}

double Meter::LongestGap() const {
  double longest = 0;
  double before = span_.begin;
  for (const Point& point : points_) {
    if (point.time < span_.begin) continue;
    longest = std::max(longest, std::min(point.time, span_.end) - before);
    before = std::min(point.time, span_.end);
  }
  return std::max(longest, span_.end - before);
}

std::string Meter::Timeline(double width) const {
  std::string text = "[";
  for (double from = span_.begin; from + width <= span_.end; from += width) {
    text += (text.size() > 1 ? "," : "") + std::to_string(TotalAt(from + width) - TotalAt(from));
  }
  return text + "]";
}

double Percentile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto index = static_cast<size_t>(part * static_cast<double>(values.size()));
  return values[std::min(index, values.size() - 1)];
}

}  // namespace krux::bench
