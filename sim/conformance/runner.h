// Runs cases in child processes of this program, so that neither a crash nor a hang of a driver
// ends the run.
#ifndef KRUX_SIM_CONFORMANCE_RUNNER_H_
#define KRUX_SIM_CONFORMANCE_RUNNER_H_

#include <map>
#include <string>
#include <vector>

#include "sim/conformance/case.h"

namespace krux::sim::conformance {

using Answers = std::map<std::string, std::string>;  // by id

// The answers of all `cases`. Cases with the same needs share a child until one of them breaks it;
// a case that kills its child answers "crashed: SIGSEGV", one that takes longer than
// `seconds_per_case` is killed and answers "hung". Says on stderr how far it is.
Answers RunCases(const std::vector<Case>& cases, int seconds_per_case);

// The child's side: runs the cases with these ids (comma-separated) and writes to `descriptor` a
// line "B\tid" before and "E\tid\tanswer" after each. Ends early when a case broke the context.
void RunInChild(const std::string& ids, int descriptor);

}  // namespace krux::sim::conformance

#endif  // KRUX_SIM_CONFORMANCE_RUNNER_H_
