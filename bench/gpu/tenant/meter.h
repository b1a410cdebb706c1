// What a tenant did over time, and the figures made from it.
//
// Progress is a list of (time, kernels finished so far), one entry for each batch that was seen to
// finish. Rates are the mean over all sliding windows of one second (of half the measured span
// where that is shorter): a tenant that runs in turns has steps in its progress, and a single
// window would be wrong by where its two edges happen to lie.
//
// Thread rule: plain values.
#ifndef KRUX_BENCH_GPU_TENANT_METER_H_
#define KRUX_BENCH_GPU_TENANT_METER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace krux::bench {

// Seconds of CLOCK_MONOTONIC, which all processes of a host share.
double Now();
// Sleeps to within a millisecond of `when`, then looks at the clock.
void WaitUntil(double when);

// The measured part of a run: [begin, end).
struct Span {
  double begin = 0;
  double end = 0;
};

class Meter {
 public:
  explicit Meter(const Span& span) : span_(span) { points_.reserve(1 << 16); }

  // `count` more have finished, seen now.
  void Add(uint64_t count);
  bool IsOver() const { return last_ >= span_.end; }

  double Rate() const;           // per second, over sliding windows
  double HighestWindow() const;  // the largest rate of one window
  double LongestGap() const;     // seconds without progress
  // Finished in each slot of `width` seconds, for plots: "[3,0,5]".
  std::string Timeline(double width) const;

 private:
  struct Point {
    double time;
    uint64_t total;
  };
  double Window() const;
  double IntegralOfTotal(double from, double to) const;
  uint64_t TotalAt(double time) const;

  Span span_;
  double last_ = 0;
  uint64_t total_ = 0;
  std::vector<Point> points_;
};

// Percentile of values, 0 .. 1; 0 for none.
double Percentile(std::vector<double> values, double part);

}  // namespace krux::bench

#endif  // KRUX_BENCH_GPU_TENANT_METER_H_
