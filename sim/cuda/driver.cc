#include "sim/cuda/driver.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/cuda/fault_point.h"
#include "sim/cuda/memory.h"

namespace krux::sim {
namespace {

enum class Phase { kNone, kReady, kForked };
std::atomic<Phase> g_phase{Phase::kNone};
std::mutex g_init_mutex;
SharedState* g_state = nullptr;

std::string UuidText(const unsigned char (&uuid)[16]) {
  char text[64];
  const unsigned char* u = uuid;
  std::snprintf(text, sizeof text,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
                u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
                u[14], u[15]);
  return text;
}

// One entry of CUDA_VISIBLE_DEVICES: an index among the visible cards or the start of a UUID.
bool FindByName(const std::string& entry, const std::vector<uint32_t>& cards, uint32_t* card) {
  if (entry.rfind("GPU-", 0) == 0) {
    for (const uint32_t candidate : cards) {
      if (UuidText(g_state->card(candidate).uuid).rfind(entry, 0) != 0) continue;
      *card = candidate;
      return true;
    }
    return false;
  }
  if (entry.empty() || entry.find_first_not_of("0123456789") != std::string::npos) return false;
  const unsigned long index = std::strtoul(entry.c_str(), nullptr, 10);
  if (index >= cards.size()) return false;
  *card = cards[index];
  return true;
}

// As the driver reads it: the list ends at the first entry that names no device.
std::vector<uint32_t> CardsToUse() {
  const std::vector<uint32_t>& visible = g_state->visible_cards();
  const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (chosen == nullptr) return visible;
  std::vector<uint32_t> cards;
  std::string rest = chosen;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    uint32_t card = 0;
    if (!FindByName(rest.substr(0, comma), visible, &card)) break;
    if (std::find(cards.begin(), cards.end(), card) != cards.end()) return {};
    cards.push_back(card);
    rest.erase(0, comma + 1);
  }
  return cards;
}

struct Graveyard {
  std::mutex mutex;
  std::deque<std::pair<Tagged*, void (*)(Tagged*)>> dead;
};

}  // namespace

void Bury(Tagged* object, void (*destroy)(Tagged*)) {
  constexpr size_t kKept = 4096;
  static auto* graveyard = new Graveyard;
  object->tag = 0;
  const std::lock_guard<std::mutex> lock(graveyard->mutex);
  graveyard->dead.emplace_back(object, destroy);
  if (graveyard->dead.size() <= kKept) return;
  const auto [oldest, destroy_oldest] = graveyard->dead.front();
  graveyard->dead.pop_front();
  destroy_oldest(oldest);
}

std::vector<std::unique_ptr<Device>>& Devices() {
  static auto* devices = new std::vector<std::unique_ptr<Device>>;
  return *devices;
}

SharedState& TheState() { return *g_state; }

CUresult InitDriver() {
  const std::lock_guard<std::mutex> lock(g_init_mutex);
  if (g_phase.load() == Phase::kForked) return CUDA_ERROR_NOT_INITIALIZED;
  if (g_phase.load() == Phase::kReady) return CUDA_SUCCESS;
  Result<SharedState*> state = SharedState::Open(SimFolder());
  if (!state) {
    std::fprintf(stderr, "simulated GPU: %s\n", state.error().ToString().c_str());
    return CUDA_ERROR_NO_DEVICE;
  }
  g_state = *state;
  MeetFaultsOf(g_state);
  for (const uint32_t card : CardsToUse()) {
    const int ordinal = static_cast<int>(Devices().size());
    Devices().push_back(std::make_unique<Device>(g_state, ordinal, card));
  }
  if (Devices().empty()) return CUDA_ERROR_NO_DEVICE;
  for (const auto& device : Devices()) device->Open();
  // A forked child has the parent's seat but none of its threads: as with the real driver, CUDA
  // does not work in it.
  pthread_atfork(nullptr, nullptr, [] { g_phase.store(Phase::kForked); });
  g_phase.store(Phase::kReady);
  return CUDA_SUCCESS;
}

CUresult DriverReady() {
  return g_phase.load(std::memory_order_acquire) == Phase::kReady ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_NOT_INITIALIZED;
}

Device* FindDevice(CUdevice ordinal) {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= Devices().size()) return nullptr;
  return Devices()[static_cast<size_t>(ordinal)].get();
}

Device::Device(SharedState* state, int ordinal, uint32_t card)
    : state_(state), ordinal_(ordinal), card_(card) {}

Device::~Device() = default;

// REQUIRES: attach_mutex_ held.
bool Device::ClaimSeat() {
  if (has_seat_) return true;
  const Result<uint32_t> seat = state_->ClaimSeat(card_);
  if (!seat) return false;
  seat_ = *seat;
  has_seat_ = true;
  state_->TakeUnlisted(card_, seat_, card().process_unlisted_bytes);
  return true;
}

void Device::Open() {
  const std::lock_guard<std::mutex> lock(attach_mutex_);
  if (card().health.lost.load() == 0) ClaimSeat();
}

bool Device::TakeContextMemory() {
  if (!memory().Charge(card().context_bytes)) return false;
  if (state_->TakeUnlisted(card_, seat_, card().context_unlisted_bytes)) return true;
  memory().Refund(card().context_bytes);
  return false;
}

void Device::ReturnContextMemory() {
  memory().Refund(card().context_bytes);
  state_->ReturnUnlisted(card_, seat_, card().context_unlisted_bytes);
}

CUresult Device::Attach() {
  const std::lock_guard<std::mutex> lock(attach_mutex_);
  if (is_attached()) return CUDA_SUCCESS;
  if (card().health.lost.load() != 0 || card().health.needs_reset.load() != 0) {
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  if (!ClaimSeat()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  auto memory = std::make_unique<DeviceMemory>(this);
  if (!memory->is_valid()) return CUDA_ERROR_OUT_OF_MEMORY;
  memory_ = std::move(memory);
  engine_ = std::make_unique<Engine>(state_, card_, seat_);
  is_attached_.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

}  // namespace krux::sim
