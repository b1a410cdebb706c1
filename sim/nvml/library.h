// The state behind NVML's functions: which node, which devices, how often it was initialised.
// Thread-safe. The node stays open for the life of the process (see SharedState).
//
// Every entry point starts with KRUX_SIM_NVML_STATE or KRUX_SIM_NVML_CARD, which refuse what the
// real library refuses before it looks further, and do what krux-sim planned for the call.
#ifndef KRUX_SIM_NVML_LIBRARY_H_
#define KRUX_SIM_NVML_LIBRARY_H_

// All generations of each call are declared, none is renamed by a macro.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <string>

#include "sim/state/fault.h"
#include "sim/state/state.h"

namespace krux::sim {

nvmlReturn_t InitLibrary();
nvmlReturn_t ShutdownLibrary();
// Null while not initialised.
SharedState* LibraryState();
// The node, initialised or not; null: it can't be opened.
SharedState* OpenState();
// KRUX_SIM_TRACE=1 prints what is not there on standard error.
void TraceRefused(const char* what, const char* name);

// What a device handle stands for; false: not a handle of ours.
bool CardOf(nvmlDevice_t device, uint32_t* card);
nvmlDevice_t HandleOf(uint32_t card);

// "GPU-1f2e...", as the driver writes a UUID.
std::string UuidText(const Card& card);
// "00000000:10:00.0".
std::string PciText(const Card& card);
// Copies text into a caller's buffer; NVML_ERROR_INSUFFICIENT_SIZE when it does not fit.
nvmlReturn_t CopyText(const std::string& text, char* out, unsigned int size);

// Busy share of a seat and of the whole card, percent, over the last fifth of a second.
unsigned int SeatPercent(Card& card, uint32_t seat);
unsigned int CardPercent(Card& card);

// One line for the many calls that hand out one value.
template <typename T>
nvmlReturn_t Give(T* out, T value) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = value;
  return NVML_SUCCESS;
}

#define KRUX_SIM_NVML_STATE(state)                                                   \
  ::krux::sim::SharedState* const state = ::krux::sim::LibraryState();               \
  if (state == nullptr) return NVML_ERROR_UNINITIALIZED;                             \
  if (const auto fault = ::krux::sim::FaultAt(state, __func__); fault.has_value()) { \
    return static_cast<nvmlReturn_t>(*fault);                                        \
  }

// Declares `card`, and refuses unknown handles and lost cards.
#define KRUX_SIM_NVML_CARD(device)                                                   \
  KRUX_SIM_NVML_STATE(state);                                                        \
  uint32_t card_index = 0;                                                           \
  if (!::krux::sim::CardOf(device, &card_index)) return NVML_ERROR_INVALID_ARGUMENT; \
  [[maybe_unused]] ::krux::sim::Card& card = state->card(card_index);                \
  if (card.health.lost.load() != 0) return NVML_ERROR_GPU_IS_LOST

}  // namespace krux::sim

#endif  // KRUX_SIM_NVML_LIBRARY_H_
