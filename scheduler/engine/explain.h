// The sentences for a verdict; see krux_reason(). Pure.
#ifndef KRUX_SCHEDULER_ENGINE_EXPLAIN_H_
#define KRUX_SCHEDULER_ENGINE_EXPLAIN_H_

#include <cstddef>

#include "scheduler/engine/krux_engine.h"

namespace krux::engine {

void Reason(const krux_verdict& verdict, char* text, size_t size);

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_EXPLAIN_H_
