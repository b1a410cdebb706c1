// The state behind NVML's functions: which node, which devices, how often it was initialised.
// Thread-safe. The node stays open for the life of the process (see SharedState).
#ifndef KRUX_SIM_NVML_LIBRARY_H_
#define KRUX_SIM_NVML_LIBRARY_H_

#include "sim/nvml/nvml.h"
#include "sim/state/state.h"

namespace krux::sim {

nvmlReturn_t InitLibrary();
nvmlReturn_t ShutdownLibrary();
// Null while not initialised.
SharedState* LibraryState();

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

#define KRUX_SIM_NVML_STATE(state)                                     \
  ::krux::sim::SharedState* const state = ::krux::sim::LibraryState(); \
  if (state == nullptr) return NVML_ERROR_UNINITIALIZED

// Declares `state` and `card_index`, and refuses unknown handles and lost cards.
#define KRUX_SIM_NVML_CARD(device)                                                   \
  KRUX_SIM_NVML_STATE(state);                                                        \
  uint32_t card_index = 0;                                                           \
  if (!::krux::sim::CardOf(device, &card_index)) return NVML_ERROR_INVALID_ARGUMENT; \
  if (state->card(card_index).lost.load() != 0) return NVML_ERROR_GPU_IS_LOST

}  // namespace krux::sim

#endif  // KRUX_SIM_NVML_LIBRARY_H_
