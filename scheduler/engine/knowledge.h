// What a cluster knows of the pods to come: the mix, and the forecast made from it.
#ifndef KRUX_SCHEDULER_ENGINE_KNOWLEDGE_H_
#define KRUX_SCHEDULER_ENGINE_KNOWLEDGE_H_

#include <utility>

#include "scheduler/engine/forecast.h"
#include "scheduler/engine/mix.h"

namespace krux::engine {

struct Knowledge {
  Knowledge(Mix m, const Fleet& fleet) : mix(std::move(m)), forecast(mix, fleet) {}

  Mix mix;
  Forecast forecast;
};

// What Krux ships with until a cluster has shown its own mix.
const Knowledge& ShippedKnowledge();

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_KNOWLEDGE_H_
