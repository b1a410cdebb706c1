#include "sim/nvml/library.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "common/clock.h"
#include "sim/state/share.h"

namespace krux::sim {
namespace {

std::mutex g_mutex;  // guards the three below
SharedState* g_state = nullptr;
int g_initialised = 0;
std::atomic<SharedState*> g_current{nullptr};

// Handles are addresses inside this array, so that foreign ones can be told.
char g_handles[kMaxCards];

// REQUIRES: g_mutex held.
SharedState* OpenLocked() {
  if (g_state == nullptr) {
    const Result<SharedState*> opened = SharedState::Open(SimFolder());
    if (opened) g_state = *opened;
  }
  return g_state;
}

}  // namespace

SharedState* OpenState() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  return OpenLocked();
}

nvmlReturn_t InitLibrary() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (OpenLocked() == nullptr) return NVML_ERROR_DRIVER_NOT_LOADED;
  ++g_initialised;
  g_current.store(g_state);
  return NVML_SUCCESS;
}

nvmlReturn_t ShutdownLibrary() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (g_initialised == 0) return NVML_ERROR_UNINITIALIZED;
  if (--g_initialised == 0) g_current.store(nullptr);
  return NVML_SUCCESS;
}

void TraceRefused(const char* what, const char* name) {
  static const bool is_on = [] {
    const char* trace = std::getenv("KRUX_SIM_TRACE");
    return trace != nullptr && trace[0] != '\0' && trace[0] != '0';
  }();
  if (is_on) std::fprintf(stderr, "simulated NVML: %s %s\n", what, name);
}

SharedState* LibraryState() { return g_current.load(); }

nvmlDevice_t HandleOf(uint32_t card) { return reinterpret_cast<nvmlDevice_t>(&g_handles[card]); }

bool CardOf(nvmlDevice_t device, uint32_t* card) {
  const SharedState* state = LibraryState();
  for (const uint32_t candidate : state->visible_cards()) {
    if (HandleOf(candidate) != device) continue;
    *card = candidate;
    return true;
  }
  return false;
}

std::string UuidText(const Card& card) {
  char text[64];
  const unsigned char* u = card.uuid;
  std::snprintf(text, sizeof text,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
                u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
                u[14], u[15]);
  return text;
}

std::string PciText(const Card& card) {
  char text[32];
  std::snprintf(text, sizeof text, "00000000:%02X:00.0", card.pci_bus);
  return text;
}

nvmlReturn_t CopyText(const std::string& text, char* out, unsigned int size) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() + 1 > size) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

// The owner closes a window when it accounts for work. An old window that is still open belongs to
// one that is idle, or that runs a single long piece of work.
unsigned int SeatPercent(Card& card, uint32_t index) {
  constexpr Nanos kStale = kSecond;
  const Seat& seat = card.seats[index];
  const Nanos now = LibraryState()->Now();
  const Nanos age = now - static_cast<Nanos>(seat.window_start_ns.load());
  if (age < kStale) return seat.percent.load();
  return CardShare(&card).ReadAt(now).IsBusy(index) ? 100 : 0;
}

unsigned int CardPercent(Card& card) {
  unsigned int sum = 0;
  for (uint32_t i = 0; i < kSeatsPerCard; ++i) {
    if (card.seats[i].used_bytes.load() > 0) sum += SeatPercent(card, i);
  }
  return std::min(sum, 100U);
}

}  // namespace krux::sim

// What every call without a model does (sim/nvml/names.cmake).
extern "C" int KruxSimNvmlRefuse(const char* name) {
  krux::sim::TraceRefused("refused", name);
  return krux::sim::LibraryState() == nullptr ? NVML_ERROR_UNINITIALIZED : NVML_ERROR_NOT_SUPPORTED;
}
