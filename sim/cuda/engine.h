// The simulated card's work, as one process sees it: streams of operations that take time, and the
// executor that lets what they do happen when it is due, without the program calling in.
//
// One Engine per process and card. Kernels take service from the card (sim/state/turns.h) and share
// it inside the process by how much of the card they fill; copies take plain time. The executor
// sleeps until the next operation whose end somebody can observe; kernels in between are accounted
// for afterwards with the times at which they were due. A process with one busy stream of kernels
// also tells the others how much work is left (its demand), so that they know when its turn ends
// without being told.
//
// Time is the node's (SharedState::Now): real, or virtual and moved by a test. An engine without
// threads does nothing by itself: whoever made it calls Step when time has moved (bench/sim_time).
//
// Thread rule: all public functions are thread-safe. Actions run on the executor (copies, marker
// writes) or on a thread of their own (host functions), never under the engine's lock.
#ifndef KRUX_SIM_CUDA_ENGINE_H_
#define KRUX_SIM_CUDA_ENGINE_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "common/clock.h"
#include "sim/state/share.h"
#include "sim/state/state.h"

namespace krux::sim {

class Engine;

// The end of an operation, for those who wait for it.
struct Mark {
  explicit Mark(Engine* owner) : engine(owner) {}
  Engine* const engine;
  std::atomic<bool> is_done{false};
  std::atomic<int> awaited{0};  // threads in Wait: makes the operation observable
  Nanos time = 0;               // when it was due to end; valid once is_done
};
using MarkPtr = std::shared_ptr<Mark>;

// What an operation does when its time has come.
struct Action {
  virtual ~Action() = default;
  virtual void Run() = 0;
  virtual bool IsReady() { return true; }  // false: asked again soon (waits for a value)
  virtual bool IsHostFunction() const { return false; }
};

struct Operation {
  Nanos cost = 0;        // service of the card (on_card) or plain time
  float width = 1;       // how much of the card it fills, 0 to 1
  bool on_card = false;  // a kernel, memset or device copy
  Nanos submitted = 0;
  MarkPtr mark;
  std::unique_ptr<Action> action;
  std::unique_ptr<std::vector<MarkPtr>> after;  // may start when all of these are done
};

// The part of a stream that its engine owns; guarded by the engine's lock.
struct Queue {
  enum class Head { kWaiting, kRunning, kActing };
  std::deque<Operation> operations;
  Head head = Head::kWaiting;
  double remaining = 0;  // of the running head, in nanoseconds of service or plain time
  Nanos card_time = 0;   // sum of the costs of all operations on the card
  int complex = 0;       // operations that do or await something, or take plain time
};

class Engine {
 public:
  enum class Threads { kOwn, kNone };

  Engine(SharedState* state, uint32_t card, uint32_t seat, Threads threads = Threads::kOwn);

  // Appends an operation. Blocks while 1024 are waiting, as the hardware's queue does.
  void Submit(Queue* queue, Operation operation);
  // The mark of the queue's last operation; null when the queue is empty.
  MarkPtr Tail(Queue* queue);
  bool IsEmpty(Queue* queue);
  // True once the operation has ended; brings the engine up to date first.
  bool IsDone(const Mark& mark);
  void Wait(const MarkPtr& mark);
  // Waits until the queue is empty.
  void Drain(Queue* queue);
  // Does what is due now. Returns when there will be more to do, kNever: when somebody submits.
  // `seen` gets the value of the seat's wake word that the answer is good for.
  Nanos Step(uint32_t* seen);

  // The card fell off the bus or was reset since this process began to use it.
  bool is_lost() const {
    const CardHealth& health = state_->card(card_).health;
    return health.lost.load(std::memory_order_relaxed) != 0 ||
           health.epoch.load(std::memory_order_relaxed) != epoch_;
  }

 private:
  struct Next {
    Queue* queue = nullptr;
    Nanos time = 0;
    Nanos served = 0;  // of the seat, at that time
    bool is_start = false;
  };

  // REQUIRES: mutex_ held, for all of these.
  void CatchUp();
  Queue* Advance(Nanos now);
  void StartHeads();
  bool CanStart(Queue& queue) const;
  void UpdateSeat();
  Nanos WorkLeft() const;
  void UpdateDemand();
  void CountIn(Queue* queue, const Operation& operation, int sign) const;
  double Width() const;
  Queue* FirstOnCard() const;
  Nanos NextLevel() const;
  Next FindNext(Nanos now);
  void NextInPlainTime(Next* next) const;
  void NextOnCard(Next* next);
  void Progress(const Next& next);
  bool BeginAction(Queue* queue);
  void Complete(Queue* queue);
  Nanos Plan(Nanos now) const;
  Nanos PlanSingle(const Queue& queue, Nanos horizon) const;
  Nanos PlanMany(Nanos horizon) const;
  void Kick();
  void AccountBusy(Nanos service, Nanos now);
  bool IsShared() const;
  bool LooksForDead(Nanos now);
  void Settle(Nanos now);

  void Execute();  // the executor thread
  void RunHostFunctions();
  void HandOver(Queue* queue);
  void WakeOthers(uint64_t busy);

  SharedState* state_;
  uint32_t card_;
  uint32_t seat_;
  CardShare share_;
  const bool has_threads_;
  const uint64_t epoch_;  // of the card's health, when the engine was made

  std::mutex mutex_;              // guards the rest
  std::condition_variable done_;  // some awaited mark is done, or a full queue has room
  std::vector<Queue*> active_;    // queues with operations
  Nanos clock_ = 0;               // everything is accounted for until then
  Nanos served_ = 0;              // how far the card has served the seat, at clock_
  bool is_on_card_ = false;       // the seat has joined the card's turns
  bool has_rejoined_ = false;     // in this Advance
  Nanos demand_ = 0;              // as told to others, while on the card
  Nanos last_look_ = 0;           // for dead processes
  Queue* frozen_ = nullptr;       // its action must run before the clock goes on
  Nanos planned_ = 0;             // when the executor will wake; 0: it is awake
  int blocked_submitters_ = 0;
  std::condition_variable host_work_;
  std::deque<Queue*> host_functions_;  // heads that are host functions, to be run in order
  bool has_host_thread_ = false;
};

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_ENGINE_H_
