#include "limiter/life/process.h"

#include <unistd.h>

#include "limiter/life/pages.h"
#include "limiter/life/self_check.h"
#include "protocol/names.h"

// In every glibc, where pthread_atfork itself moved between libraries.
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                 void* object);
extern "C" void* __dso_handle;

namespace krux::limiter {
namespace {

constexpr int kConnectTimeoutMs = 3000;

constinit Process self;
std::atomic<bool> fork_handler_set;

// The child has no GPU state, no agent and no keeper. It takes no lock: their holders are threads
// that do not exist here.
void ForgetAfterFork() {
  self.state.store(Process::kFresh, std::memory_order_relaxed);
  self.start_lock.Forget();
  self.limits = nullptr;
  self.link.ForgetAfterFork();
  self.account.ForgetAfterFork();
  self.allocations.ForgetAfterFork();
  self.managed.ForgetAfterFork();
  self.physical.ForgetAfterFork();
  self.pools.ForgetAfterFork();
  self.contexts.ForgetAfterFork();
  self.graph_memory.ForgetAfterFork();
  self.known_functions.Forget();
  self.costs.ForgetAfterFork();
  self.streams.ForgetAfterFork();
  self.words.ForgetAfterFork();
  self.gate.ForgetAfterFork();
  self.keeper.ForgetAfterFork();
  self.captures.store(0, std::memory_order_relaxed);
  ForgetDriverLocks();
}

Problem OpenPagesLocked() {
  if (self.limits == nullptr) {
    if (Problem problem = FindContainerFolder(names::kContainerMount, &self.folder)) return problem;
    if (Problem problem = MapLimits(self.folder, &self.limits)) return problem;
  }
  if (self.account.attached()) return Problem::None();
  AgentLink::Admission admission;
  if (Problem problem =
          self.link.Connect(self.folder, wire::Hello::kNoSlot, kConnectTimeoutMs, &admission)) {
    return problem;
  }
  if (admission.welcome.slot >= kMaxPageProcesses) {
    return Problem::Because("the agent of this node gave slot %u", admission.welcome.slot);
  }
  AccountPage* page = nullptr;
  if (Problem problem = MapAccount(admission.account.get(), self.limits->gpu_count, &page)) {
    return problem;
  }
  self.account.Attach(self.limits, page, admission.welcome.slot, self.limits->gpu_count);
  if (!fork_handler_set.exchange(true)) {
    __register_atfork(nullptr, nullptr, &ForgetAfterFork, __dso_handle);
  }
  return Problem::None();
}

}  // namespace

constinit thread_local bool EntryGuard::inside_ = false;

Process& Self() { return self; }

Problem OpenPages() {
  if (self.ready()) return Problem::None();
  const LockGuard guard(self.start_lock);
  return OpenPagesLocked();
}

Problem StartBeforeDriver() {
  if (self.ready()) return Problem::None();
  const LockGuard guard(self.start_lock);
  if (self.ready()) return Problem::None();
  if (Problem problem = CheckHooksAreLive()) return problem;
  return OpenPagesLocked();
}

Problem StartAfterDriver() {
  if (self.ready()) return Problem::None();
  const LockGuard guard(self.start_lock);
  if (self.ready()) return Problem::None();
  if (Problem problem = self.devices.Find(*self.limits)) return problem;
  self.pace = Pace::At(TickRate(self.limits->tsc_per_second.load()));
  self.costs.Init();
  self.words.Init();
  self.streams.Init(&self.pace, &self.costs);
  self.gate.Init(self.limits, &self.pace, [] { self.keeper.Wake(); });
  // Also in programs that launch nothing: it finds a restarted agent, and brings it the charges.
  self.keeper.Start(self.limits, self.folder);
  self.state.store(Process::kReady, std::memory_order_release);
  return Problem::None();
}

}  // namespace krux::limiter
