#include "agent/lease_service.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "agent/lease_card.h"
#include "common/fd.h"
#include "common/tsc.h"

namespace krux::agent {
namespace {

// A mutex that lends its holder the priority of who waits: the lease thread may be a real-time one
// and must not wait behind a caller that has lost the processor.
class PriorityMutex {
 public:
  PriorityMutex() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }
  ~PriorityMutex() { pthread_mutex_destroy(&mutex_); }
  PriorityMutex(const PriorityMutex&) = delete;
  PriorityMutex& operator=(const PriorityMutex&) = delete;
  void lock() { pthread_mutex_lock(&mutex_); }      // NOLINT(readability-identifier-naming)
  void unlock() { pthread_mutex_unlock(&mutex_); }  // NOLINT(readability-identifier-naming)

 private:
  pthread_mutex_t mutex_;
};

Status CheckShares(const Shares& shares) {
  if (shares.cores > 100) {
    return Error{ErrorCode::kInvalidArgument,
                 "cores must be 0 to 100 percent, not " + std::to_string(shares.cores)};
  }
  if (shares.policy == ComputePolicy::kFixed && shares.cores == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "policy 'fixed' needs cores of 1 to 100 percent: with 0 nothing could ever run"};
  }
  return Ok();
}

// What the thread asks of the system so that it wakes in time. Each may be refused, quietly: then
// leases end a little later.
void BecomePunctual() {
  prctl(PR_SET_NAME, "krux-leases");
  prctl(PR_SET_TIMERSLACK, 1UL);
  sched_param parameters{};
  parameters.sched_priority = 1;
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0) return;
  setpriority(PRIO_PROCESS, 0, -10);  // of this thread alone, on Linux
}

class LeaseServiceImpl : public LeaseService {
 public:
  LeaseServiceImpl(const Arbiter::Options& options, UniqueFd timer, UniqueFd stop)
      : options_(options),
        tsc_per_second_(MeasureTscPerSecond()),
        timer_(std::move(timer)),
        stop_(std::move(stop)),
        thread_([this] { Run(); }) {}

  ~LeaseServiceImpl() override {
    eventfd_write(stop_.get(), 1);
    thread_.join();
    const std::lock_guard lock(mutex_);
    for (auto& [uuid, card] : cards_) card.EndAll();
  }

  uint64_t tsc_per_second() const override { return tsc_per_second_; }

  Status AddTenant(const std::string& name, const TenantGpu& gpu) override {
    KRUX_RETURN_IF_ERROR(CheckShares(gpu.shares));
    if (gpu.page_gpu >= kMaxPageGpus || gpu.limits == nullptr || gpu.account == nullptr) {
      return Error{ErrorCode::kInvalidArgument, "tenant " + name + ": GPU index " +
                                                    std::to_string(gpu.page_gpu) +
                                                    " or its pages are wrong"};
    }
    const std::lock_guard lock(mutex_);
    Tenant& tenant = tenants_[name];
    if (tenant.gpus.contains(gpu.page_gpu)) {
      return Error{ErrorCode::kAlreadyExists,
                   "tenant " + name + " already has its GPU " + std::to_string(gpu.page_gpu)};
    }
    gpu.limits->tsc_per_second.store(tsc_per_second_);
    LeaseCard& card = cards_.try_emplace(gpu.gpu_uuid, options_, tsc_per_second_).first->second;
    const Place place{&card, gpu.gpu_uuid, next_id_++};
    tenant.gpus.emplace(gpu.page_gpu, place);
    card.Add(place.id, LeasePlace{gpu.page_gpu, gpu.limits, gpu.account, &tenant.processes},
             gpu.shares, MonotonicNow());
    SetTimer();
    return Ok();
  }

  void RemoveTenant(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    const auto found = tenants_.find(name);
    if (found == tenants_.end()) return;
    for (const auto& [page_gpu, place] : found->second.gpus) {
      place.card->Remove(place.id, MonotonicNow());
      if (place.card->empty()) cards_.erase(place.gpu_uuid);
    }
    tenants_.erase(found);
    SetTimer();
  }

  Status SetShares(const std::string& name, uint32_t page_gpu, const Shares& shares) override {
    KRUX_RETURN_IF_ERROR(CheckShares(shares));
    const std::lock_guard lock(mutex_);
    KRUX_ASSIGN_OR_RETURN(Tenant* const tenant, Find(name));
    const auto place = tenant->gpus.find(page_gpu);
    if (place == tenant->gpus.end()) {
      return Error{ErrorCode::kNotFound,
                   "tenant " + name + " has no GPU " + std::to_string(page_gpu)};
    }
    place->second.card->SetShares(place->second.id, shares, MonotonicNow());
    SetTimer();
    return Ok();
  }

  Status ProcessJoined(const std::string& name, uint32_t slot, NoticeSender sender) override {
    if (slot >= kMaxPageProcesses) {
      return Error{ErrorCode::kInvalidArgument, "no process slot " + std::to_string(slot)};
    }
    const std::lock_guard lock(mutex_);
    KRUX_ASSIGN_OR_RETURN(Tenant* const tenant, Find(name));
    tenant->processes[slot] = std::move(sender);
    return Ok();
  }

  void ProcessLeft(const std::string& name, uint32_t slot) override {
    const std::lock_guard lock(mutex_);
    const auto tenant = tenants_.find(name);
    if (tenant == tenants_.end() || tenant->second.processes.erase(slot) == 0) return;
    for (const auto& [page_gpu, place] : tenant->second.gpus) {
      place.card->OnProcessLeft(place.id, MonotonicNow());
    }
    SetTimer();
  }

  Status OnEvent(const std::string& name, uint32_t slot, const wire::Event& event) override {
    const std::lock_guard lock(mutex_);
    KRUX_ASSIGN_OR_RETURN(Tenant* const tenant, Find(name));
    const auto found = tenant->gpus.find(event.gpu);
    if (found == tenant->gpus.end() || !tenant->processes.contains(slot)) {
      return Error{ErrorCode::kInvalidArgument,
                   "tenant " + name + " has no GPU " + std::to_string(event.gpu) +
                       " or no process in slot " + std::to_string(slot)};
    }
    const Place& place = found->second;
    switch (event.kind) {
      case wire::EventKind::kWant:
        place.card->OnWant(place.id, MonotonicNow());
        break;
      case wire::EventKind::kDrained:
      case wire::EventKind::kIdle:
        place.card->OnNoWork(place.id, event.epoch, MonotonicNow());
        break;
      default:
        return Error{ErrorCode::kInvalidArgument,
                     "event kind " + std::to_string(static_cast<uint32_t>(event.kind)) +
                         " says nothing about leases"};
    }
    SetTimer();
    return Ok();
  }

  std::vector<TenantView> Snapshot() override {
    const std::lock_guard lock(mutex_);
    std::vector<TenantView> views;
    for (const auto& [name, tenant] : tenants_) {
      for (const auto& [page_gpu, place] : tenant.gpus) {
        views.push_back({name, place.gpu_uuid, page_gpu,
                         static_cast<uint32_t>(tenant.processes.size()),
                         place.card->Look(place.id, MonotonicNow()), place.card->together()});
      }
    }
    return views;
  }

 private:
  struct Place {
    LeaseCard* card = nullptr;
    std::string gpu_uuid;
    LeaseCard::LeaseId id = 0;
  };
  struct Tenant {
    std::map<uint32_t, Place> gpus;  // by index in the pages
    ProcessMap processes;
  };

  Result<Tenant*> Find(const std::string& name) {
    const auto found = tenants_.find(name);
    if (found == tenants_.end()) return Error{ErrorCode::kNotFound, "no tenant " + name};
    return &found->second;
  }

  // Holds mutex_. The timer is only touched when it must ring earlier or when it has rung.
  void SetTimer() {
    const Nanos now = MonotonicNow();
    Nanos next = Arbiter::kOpenEnd;
    for (const auto& [uuid, card] : cards_) next = std::min(next, card.NextTimer(now));
    if (next >= timer_set_) return;
    timer_set_ = next;
    itimerspec when{};
    next = std::max(next, now + 1);
    when.it_value.tv_sec = static_cast<time_t>(next / kSecond);
    when.it_value.tv_nsec = static_cast<long>(next % kSecond);
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

  void Run() {
    BecomePunctual();
    while (true) {
      pollfd waiters[2] = {{timer_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      if (poll(waiters, 2, -1) < 0) continue;
      if (waiters[1].revents != 0) return;
      uint64_t rings = 0;
      const bool rang = read(timer_.get(), &rings, sizeof rings) == sizeof rings;
      const std::lock_guard lock(mutex_);
      if (!rang) continue;
      timer_set_ = Arbiter::kOpenEnd;
      for (auto& [uuid, card] : cards_) card.OnTimer(MonotonicNow());
      SetTimer();
    }
  }

  const Arbiter::Options options_;
  const uint64_t tsc_per_second_;
  PriorityMutex mutex_;  // guards all below, and the pages' lease fields
  std::map<std::string, LeaseCard> cards_;
  std::map<std::string, Tenant> tenants_;
  LeaseCard::LeaseId next_id_ = 1;
  Nanos timer_set_ = Arbiter::kOpenEnd;
  UniqueFd timer_;
  UniqueFd stop_;
  std::thread thread_;  // last: it uses all above
};

}  // namespace

Result<std::unique_ptr<LeaseService>> LeaseService::Start(const Arbiter::Options& options) {
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.valid()) return ErrnoError(errno, "creating the lease timer");
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return ErrnoError(errno, "creating the lease thread's stop event");
  return std::unique_ptr<LeaseService>(
      std::make_unique<LeaseServiceImpl>(options, std::move(timer), std::move(stop)));
}

}  // namespace krux::agent
