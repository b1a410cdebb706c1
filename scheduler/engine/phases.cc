#include "scheduler/engine/phases.h"

namespace krux::engine {

bool FindPhases(const krux_container* containers, size_t count, Phases* phases) {
  if (count > KRUX_MAX_CONTAINERS || (count > 0 && containers == nullptr)) return false;
  size_t inits = 0;
  for (size_t i = 0; i < count; ++i) {
    if (containers[i].kind > KRUX_INIT) return false;
    if (containers[i].kind == KRUX_INIT) ++inits;
  }
  phases->count = inits + 1;
  size_t inits_before = 0;
  for (size_t i = 0; i < count; ++i) {
    const bool is_init = containers[i].kind == KRUX_INIT;
    const bool is_app = containers[i].kind == KRUX_APP;
    phases->first[i] = static_cast<uint8_t>(is_app ? inits : inits_before);
    phases->last[i] = static_cast<uint8_t>(is_init ? inits_before : inits);
    if (is_init) ++inits_before;
  }
  return true;
}

}  // namespace krux::engine
