#include "limiter/memory/account.h"

namespace krux::limiter {
namespace {

// A counter that a tenant's garbage can't make negative.
void SubtractDownToZero(std::atomic<uint64_t>& counter, uint64_t bytes) {
  uint64_t value = counter.load(std::memory_order_relaxed);
  while (!counter.compare_exchange_weak(value, value > bytes ? value - bytes : 0,
                                        std::memory_order_acq_rel)) {
  }
}

}  // namespace

void Account::Attach(const LimitsPage* limits, AccountPage* page, uint32_t slot,
                     uint32_t gpu_count) {
  for (Lock& lock : locks_) lock.Acquire();
  ProcessSlot* to = &page->processes[slot];
  ProcessSlot* from = mine_.load(std::memory_order_acquire);
  if (from != nullptr && from != to) {
    for (uint32_t gpu = 0; gpu < gpu_count; ++gpu) {
      MoveLocked(page, &from->gpus[gpu], &to->gpus[gpu], gpu);
    }
  }
  limits_.store(limits, std::memory_order_release);
  slot_ = slot;
  gpu_count_ = gpu_count;
  mine_.store(to, std::memory_order_release);
  page_.store(page, std::memory_order_release);
  for (Lock& lock : locks_) lock.Release();
}

// What this process holds on the GPU is real, whether or not it fits into the new account.
void Account::MoveLocked(AccountPage* page, ProcessSlot::PerGpu* from, ProcessSlot::PerGpu* to,
                         uint32_t gpu) {
  const uint64_t physical =
      limits_.load(std::memory_order_relaxed)->gpus[gpu].memory_physical_bytes.load();
  uint64_t charged = from->charged_bytes.load();
  if (charged > physical) charged = physical;
  const uint64_t context = from->context_bytes.load();
  to->pending_bytes.store(charged);
  // Another slot of the same page: used_bytes holds these bytes already.
  if (page != page_.load(std::memory_order_relaxed)) page->gpus[gpu].used_bytes.fetch_add(charged);
  to->charged_bytes.fetch_add(charged);
  to->context_bytes.store(context < charged ? context : charged);
  to->unlisted_bytes.store(from->unlisted_bytes.load());
  to->active_epoch.store(from->active_epoch.load());
  to->pending_bytes.store(0);
  from->charged_bytes.store(0);
}

bool Account::ChargeLocked(uint32_t gpu, uint64_t bytes) {
  ProcessSlot::PerGpu& mine = mine_.load(std::memory_order_relaxed)->gpus[gpu];
  std::atomic<uint64_t>& used = page_.load(std::memory_order_relaxed)->gpus[gpu].used_bytes;
  const uint64_t limit = Limit(gpu);
  mine.pending_bytes.store(bytes);
  uint64_t now = used.load(std::memory_order_acquire);
  do {
    if (bytes > limit || now > limit - bytes) {
      mine.pending_bytes.store(0);
      mine.refused.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  } while (!used.compare_exchange_weak(now, now + bytes));
  mine.charged_bytes.fetch_add(bytes);
  mine.pending_bytes.store(0);
  return true;
}

void Account::ReturnLocked(uint32_t gpu, uint64_t bytes) {
  ProcessSlot::PerGpu& mine = mine_.load(std::memory_order_relaxed)->gpus[gpu];
  mine.pending_bytes.store(bytes);
  SubtractDownToZero(mine.charged_bytes, bytes);
  SubtractDownToZero(page_.load(std::memory_order_relaxed)->gpus[gpu].used_bytes, bytes);
  mine.pending_bytes.store(0);
}

bool Account::Charge(uint32_t gpu, uint64_t bytes) {
  if (bytes == 0) return true;
  const LockGuard guard(locks_[gpu]);
  return ChargeLocked(gpu, bytes);
}

void Account::Return(uint32_t gpu, uint64_t bytes) {
  if (bytes == 0) return;
  const LockGuard guard(locks_[gpu]);
  ReturnLocked(gpu, bytes);
}

bool Account::Settle(uint32_t gpu, uint64_t charged, uint64_t actual) {
  if (actual > charged) return Charge(gpu, actual - charged);
  Return(gpu, charged - actual);
  return true;
}

void Account::ChargeAnyway(uint32_t gpu, uint64_t bytes) {
  if (bytes == 0) return;
  const LockGuard guard(locks_[gpu]);
  ProcessSlot::PerGpu& mine = mine_.load(std::memory_order_relaxed)->gpus[gpu];
  mine.pending_bytes.store(bytes);
  page_.load(std::memory_order_relaxed)->gpus[gpu].used_bytes.fetch_add(bytes);
  mine.charged_bytes.fetch_add(bytes);
  mine.pending_bytes.store(0);
}

void Account::NoteUnlisted(uint32_t gpu, uint64_t bytes) {
  const LockGuard guard(locks_[gpu]);
  mine_.load(std::memory_order_relaxed)->gpus[gpu].unlisted_bytes.fetch_add(bytes);
}

void Account::ForgetUnlisted(uint32_t gpu, uint64_t bytes) {
  const LockGuard guard(locks_[gpu]);
  SubtractDownToZero(mine_.load(std::memory_order_relaxed)->gpus[gpu].unlisted_bytes, bytes);
}

bool Account::ChargeContext(uint32_t gpu, uint64_t bytes) {
  if (bytes == 0) return true;
  const LockGuard guard(locks_[gpu]);
  if (!ChargeLocked(gpu, bytes)) return false;
  mine_.load(std::memory_order_relaxed)->gpus[gpu].context_bytes.fetch_add(bytes);
  return true;
}

void Account::GiveToAgent(uint32_t gpu, uint64_t bytes) {
  const LockGuard guard(locks_[gpu]);
  mine_.load(std::memory_order_relaxed)->gpus[gpu].context_bytes.fetch_add(bytes);
}

void Account::ReturnContextBytes(uint32_t gpu, uint64_t bytes) {
  const LockGuard guard(locks_[gpu]);
  SubtractDownToZero(mine_.load(std::memory_order_relaxed)->gpus[gpu].context_bytes, bytes);
  ReturnLocked(gpu, bytes);
}

void Account::ReturnContext(uint32_t gpu, uint32_t contexts) {
  if (contexts == 0) return;
  const LockGuard guard(locks_[gpu]);
  std::atomic<uint64_t>& context = mine_.load(std::memory_order_relaxed)->gpus[gpu].context_bytes;
  const uint64_t bytes = context.load() / contexts;
  SubtractDownToZero(context, bytes);
  ReturnLocked(gpu, bytes);
}

uint64_t Account::Limit(uint32_t gpu) const {
  const LimitsPage* limits = limits_.load(std::memory_order_acquire);
  return limits->gpus[gpu].memory_limit_bytes.load(std::memory_order_acquire);
}

uint64_t Account::Used(uint32_t gpu) const {
  return page()->gpus[gpu].used_bytes.load(std::memory_order_acquire);
}

uint64_t Account::Free(uint32_t gpu) const {
  const uint64_t limit = Limit(gpu), used = Used(gpu);
  return used < limit ? limit - used : 0;
}

void Account::HintDrain(uint64_t tsc) {
  mine_.load(std::memory_order_acquire)->drain_tsc.store(tsc, std::memory_order_relaxed);
}

ProcessSlot::PerGpu* Account::Mine(uint32_t gpu) {
  ProcessSlot* mine = mine_.load(std::memory_order_acquire);
  return mine == nullptr ? nullptr : &mine->gpus[gpu];
}

void Account::ForgetAfterFork() {
  for (Lock& lock : locks_) lock.Forget();
  page_.store(nullptr, std::memory_order_relaxed);
  mine_.store(nullptr, std::memory_order_relaxed);
}

}  // namespace krux::limiter
