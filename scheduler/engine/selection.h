// Which GPUs a pod may have: lists of models and of UUIDs. Pure.
#ifndef KRUX_SCHEDULER_ENGINE_SELECTION_H_
#define KRUX_SCHEDULER_ENGINE_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "scheduler/engine/krux_engine.h"

namespace krux::engine {

// Bit sets of model ids; a pod without lists allows all.
uint64_t AllowedModels(const krux_pod& pod);
bool AllowsModel(const krux_pod& pod, const krux_gpu& gpu);
bool AllowsUuid(const krux_pod& pod, const krux_gpu& gpu);

// See krux_matches() and krux_uuid_key().
bool ListNamesModel(std::string_view list, std::string_view model);
uint64_t UuidKey(std::string_view uuid);

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_SELECTION_H_
