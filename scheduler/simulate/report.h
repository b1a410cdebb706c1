// What a study prints: Markdown tables, JSON lines, and the plot.
#ifndef KRUX_SCHEDULER_SIMULATE_REPORT_H_
#define KRUX_SCHEDULER_SIMULATE_REPORT_H_

#include <string>

#include "scheduler/simulate/study.h"

namespace krux::simulate {

// Unallocated GPUs in percent at these arrivals, beside the published cell of FGD, and failed
// demand of 8-GPU tasks.
std::string TableOf(const Traces& traces, const StudyPlan& plan, const Cells& cells);

// One line for each cell, as bench/results keeps them. `what` names the setting, `command` the
// command line.
std::string JsonLines(const Traces& traces, const StudyPlan& plan, const Cells& cells,
                      const std::string& machine, const std::string& command);

// Unallocated GPUs over arrivals, one line for each policy: SVG of one trace.
std::string PlotOf(const StudyPlan& plan, const Cells& cells, const std::string& trace);

// What tells this study from the published protocol, for tables and result lines; empty = nothing.
std::string DifferencesOf(const StudyPlan& plan);

}  // namespace krux::simulate

#endif  // KRUX_SCHEDULER_SIMULATE_REPORT_H_
