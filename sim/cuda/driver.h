// The objects behind the CUDA driver API: the driver itself, devices, contexts, streams, events.
//
// Each cu* function starts with KRUX_SIM_READY or KRUX_SIM_CONTEXT, turns handles into objects with
// Checked(), and does its work. Handles are pointers to Tagged objects; a destroyed object keeps
// its memory for a while with another tag, so that a stale handle is refused instead of crashing.
//
// Singletons live for ever: the executor threads may still run when the program exits.
#ifndef KRUX_SIM_CUDA_DRIVER_H_
#define KRUX_SIM_CUDA_DRIVER_H_

#include <cuda.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "sim/cuda/engine.h"
#include "sim/state/state.h"

namespace krux::sim {

class DeviceMemory;
class Device;
struct Capture;
struct GraphNode;

struct Tagged {
  uint32_t tag = 0;
};

// Objects that have handles. Bury keeps the memory of the last few thousand dead ones.
template <typename T, typename... Args>
T* Make(Args&&... args) {
  T* object = new T(std::forward<Args>(args)...);
  object->tag = T::kTag;
  return object;
}
void Bury(Tagged* object, void (*destroy)(Tagged*));
template <typename T>
void Bury(T* object) {
  Bury(object, [](Tagged* dead) { delete static_cast<T*>(dead); });
}
// The object of a handle, or null when the handle is null, foreign or dead.
template <typename T, typename Handle>
T* Checked(Handle handle) {
  T* object = reinterpret_cast<T*>(handle);
  return object != nullptr && object->tag == T::kTag ? object : nullptr;
}

// Whether the handle is of an object that was buried not long ago.
template <typename Handle>
bool IsBuried(Handle handle) {
  const auto* object = reinterpret_cast<const Tagged*>(handle);
  return object != nullptr && object->tag == 0;
}

struct Context;

struct Stream : Tagged {
  static constexpr uint32_t kTag = 0x5354524d;
  Context* context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  bool is_legacy = false;
  CUlaunchAttributeValue sync_policy{};  // as set last; the card has one way of waiting
  bool has_sync_policy = false;
  Queue queue;
  std::atomic<Capture*> capture{nullptr};
  bool is_blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

struct Event : Tagged {
  static constexpr uint32_t kTag = 0x45564e54;
  Context* context = nullptr;
  unsigned flags = 0;
  std::mutex mutex;                        // guards the rest
  MarkPtr mark;                            // of the last record; null: never recorded
  uint64_t capture_id = 0;                 // 0: recorded outside a capture
  std::vector<GraphNode*> captured_after;  // nodes of that capture
};

struct Context : Tagged {
  static constexpr uint32_t kTag = 0x43545854;
  Device* device = nullptr;
  unsigned flags = 0;
  unsigned api_version = 3020;
  bool is_primary = false;
  uint64_t id = 0;  // another one each time that a primary context comes to life
  // Why no call works in it: CUDA_ERROR_CONTEXT_IS_DESTROYED while a primary context is not active,
  // or what a faulty kernel left behind.
  std::atomic<CUresult> error{CUDA_SUCCESS};
  std::mutex mutex;           // guards streams, limits, storage
  std::set<Stream*> streams;  // made by the program, and those of threads
  Stream* legacy = nullptr;
  std::atomic<int> blocking_streams{0};  // besides the legacy one
  std::atomic<bool> legacy_used{false};  // so that others need not look while it never was
  size_t made_streams = 0;               // alive, besides the legacy one
  uint64_t stream_bytes = 0;  // that the card gave for the most that were there at a time
  size_t limits[CU_LIMIT_MAX] = {};
  std::atomic<CUfunc_cache> cache_config{CU_FUNC_CACHE_PREFER_NONE};
  std::atomic<uint64_t> local_memory_bytes{0};  // grown by launches; shrinks at destruction
  std::atomic<size_t> local_bytes_per_thread{0};
  std::atomic<uint64_t> heap_bytes{0};  // of kernels that call malloc; 0 until the first launch
  // What the CUDA runtime keeps in a context (export_tables.cc).
  struct Stored {
    void* value = nullptr;
    void (*destroy)(CUcontext, void* key, void* value) = nullptr;
  };
  std::map<void*, Stored> storage;
};

class Device {
 public:
  Device(SharedState* state, int ordinal, uint32_t card);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ordinal() const { return ordinal_; }
  uint32_t card_index() const { return card_; }
  Card& card() { return state_->card(card_); }
  SharedState* state() { return state_; }
  uint32_t seat() const { return seat_; }
  // REQUIRES: Attach succeeded, as it has for every device that has a context.
  Engine& engine() { return *engine_; }
  DeviceMemory& memory() { return *memory_; }

  // What a context costs, listed under the process and not; all or nothing.
  bool TakeContextMemory();
  void ReturnContextMemory();

  bool is_attached() const { return is_attached_.load(std::memory_order_acquire); }
  // Takes a seat on the card, and what cuInit costs there. A card that has none left is met again
  // by Attach.
  void Open();
  // Makes the card ready for contexts; called before the first one. Idempotent.
  CUresult Attach();

  // A kernel's fault is the end of all contexts that the process has on the card, and of those it
  // would still make, as on an H200.
  std::atomic<CUresult> fault{CUDA_SUCCESS};
  void Fail(CUresult error);
  void AddContext(Context* context);
  void RemoveContext(Context* context);

  std::mutex primary_mutex;  // guards the rest
  // The handle, for ever the same once somebody asked for it; active while the count is above 0.
  Context* primary = nullptr;
  unsigned primary_count = 0;
  unsigned primary_flags = 0;

 private:
  std::mutex contexts_mutex_;
  std::set<Context*> contexts_;  // the living ones
  SharedState* state_;
  int ordinal_;
  uint32_t card_;
  bool ClaimSeat();

  std::mutex attach_mutex_;
  bool has_seat_ = false;
  std::atomic<bool> is_attached_{false};  // the rest is there
  uint32_t seat_ = 0;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<DeviceMemory> memory_;
};

// cuInit's work. CUDA_ERROR_NO_DEVICE when no card is to be seen.
CUresult InitDriver();
// CUDA_SUCCESS, or why no call works now: before cuInit, or in a child forked after it.
CUresult DriverReady();
std::vector<std::unique_ptr<Device>>& Devices();
SharedState& TheState();
// Null when the ordinal is out of range.
Device* FindDevice(CUdevice ordinal);

// The context on top of this thread's stack; null: none, or it was destroyed.
Context* CurrentContext();
// What a kernel's fault left in the context; success for one that is gone.
CUresult ErrorOf(Context* context);
// The same for calls that need a working one: says why there is none.
CUresult UseContext(Context** out);
CUresult CreateContext(Device* device, unsigned flags, Context** out);
void DestroyContext(Context* context);
// REQUIRES, for these three: primary_mutex held.
Context* PrimaryHandle(Device* device);
CUresult ActivatePrimary(Device* device);
void DeactivatePrimary(Device* device);
bool IsPrimaryActive(const Device* device);
CUresult SynchronizeContext(Context* context);
void ForgetContext(Context* context);  // from this thread's stack

// A stream handle of the API, with 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, in the current
// context. Null: invalid.
Stream* FindStream(CUstream handle, Context* context);
Stream* CreateStream(Context* context, unsigned flags, int priority);
// The same for a stream of the program's or a thread's, which takes memory. Null: the card is full.
Stream* CreateOwnStream(Context* context, unsigned flags, int priority);
void DestroyStream(Stream* stream);

// Puts an operation into a stream, after what the legacy stream's rules ask for.
CUresult SubmitTo(Stream* stream, Operation operation);
void WaitForStream(Stream* stream);

#define KRUX_SIM_READY()                                                            \
  do {                                                                              \
    if (const CUresult ready = ::krux::sim::DriverReady(); ready != CUDA_SUCCESS) { \
      return ready;                                                                 \
    }                                                                               \
  } while (false)

#define KRUX_SIM_CONTEXT(name)                                                          \
  KRUX_SIM_READY();                                                                     \
  ::krux::sim::Context* name = nullptr;                                                 \
  if (const CUresult usable = ::krux::sim::UseContext(&name); usable != CUDA_SUCCESS) { \
    return usable;                                                                      \
  }

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_DRIVER_H_
