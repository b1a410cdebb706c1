// Whether what came through the C interface is within the bounds in which no sum of the engine can
// overflow. Pure.
#ifndef KRUX_SCHEDULER_ENGINE_CHECK_H_
#define KRUX_SCHEDULER_ENGINE_CHECK_H_

#include <algorithm>
#include <cstddef>

#include "scheduler/engine/knowledge.h"
#include "scheduler/engine/krux_engine.h"

// The opaque type of krux_engine.h.
struct krux_mix {  // NOLINT(readability-identifier-naming)
  krux::engine::Knowledge knowledge;
};

namespace krux::engine {

bool IsSane(const krux_gpu& gpu);
bool IsSane(const krux_container& container);
bool IsSane(const krux_pod& pod);
bool IsSane(const krux_node& node);

template <typename T>
bool AllSane(const T* items, size_t count) {
  return count == 0 || (items != nullptr &&
                        std::all_of(items, items + count, [](const T& x) { return IsSane(x); }));
}

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_CHECK_H_
