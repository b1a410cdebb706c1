// Turns the four resources that a user wrote into a valid request, or into a sentence.
// Used by krux_validate(); pure.
#ifndef KRUX_SCHEDULER_ENGINE_REQUEST_H_
#define KRUX_SCHEDULER_ENGINE_REQUEST_H_

#include <cstddef>

#include "scheduler/engine/krux_engine.h"

namespace krux::engine {

// True and *out filled, or false and a sentence. See krux_validate().
bool Validate(const krux_asked& asked, krux_container* out, char* sentence, size_t size);

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_REQUEST_H_
