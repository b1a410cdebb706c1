// A recording: the answers of one driver on one card, as a text file that is committed.
//
//   # krux conformance 1
//   # driver 580.159.04          lines "# key value": driver, cuda, card, date, ...
//   mem.alloc.zero<TAB>INVALID_VALUE
//
// A list of known differences has the same form, with the reason instead of the answer.
#ifndef KRUX_SIM_CONFORMANCE_RECORDING_H_
#define KRUX_SIM_CONFORMANCE_RECORDING_H_

#include <string>
#include <vector>

#include "sim/conformance/case.h"
#include "sim/conformance/runner.h"

namespace krux::sim::conformance {

struct Recording {
  std::vector<std::pair<std::string, std::string>> head;  // key, value
  Answers answers;
};

// False when the file can't be read or is no recording; `error` says why.
bool ReadRecording(const std::string& path, Recording& recording, std::string& error);
// In the order of `cases`.
bool WriteRecording(const std::string& path, const Recording& recording,
                    const std::vector<Case>& cases);

// Asked of the driver and NVML in a child process: driver version, CUDA version, card, date.
std::vector<std::pair<std::string, std::string>> DescribeMachine();
// What `--describe` prints for DescribeMachine: lines "key value".
void PrintMachine();

struct Comparison {
  size_t compared = 0;  // cases that both have
  size_t crashed = 0;   // cases that killed the recorded driver: there is nothing to equal
  size_t equal = 0;
  size_t explained = 0;                  // of the unequal ones
  std::vector<std::string> unexplained;  // ids
  std::vector<std::string> stale;        // known differences that are equal now
  std::vector<std::string> unrecorded;   // cases that the recording lacks
};
Comparison Compare(const Answers& recorded, const Answers& here, const Answers& known);

}  // namespace krux::sim::conformance

#endif  // KRUX_SIM_CONFORMANCE_RECORDING_H_
