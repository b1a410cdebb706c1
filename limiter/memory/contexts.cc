#include "limiter/memory/contexts.h"

#include "limiter/memory/sizes.h"

namespace krux::limiter {

void Contexts::OnMade(uint64_t context, uint32_t gpu) {
  const LockGuard guard(lock_);
  uint32_t* row = gpu_of_.Insert(context);
  if (row == nullptr) return;
  *row = gpu;
  ++living_[gpu];
}

bool Contexts::OnGone(uint64_t context) {
  const LockGuard guard(lock_);
  const uint32_t* row = gpu_of_.Find(context);
  if (row == nullptr) return false;
  const uint32_t gpu = *row;
  gpu_of_.Remove(context);
  account_->ReturnContext(gpu, living_[gpu]);
  if (living_[gpu] > 0 && --living_[gpu] == 0) local_bytes_[gpu] = 0;
  if (primary_[gpu] == context) primary_[gpu] = 0;
  return true;
}

uint64_t Contexts::Primary(uint32_t gpu) {
  const LockGuard guard(lock_);
  return primary_[gpu];
}

void Contexts::SetPrimary(uint32_t gpu, uint64_t context) {
  const LockGuard guard(lock_);
  primary_[gpu] = context;
}

bool Contexts::GrowLocalMemory(uint32_t gpu, uint64_t bytes_per_thread, uint64_t threads,
                               bool* grown) {
  const LockGuard guard(lock_);
  const uint64_t before =
      local_bytes_[gpu] > kLocalBytesIncluded ? local_bytes_[gpu] : kLocalBytesIncluded;
  if (bytes_per_thread <= before) return true;
  if (!account_->ChargeContext(gpu, OwnBytes(Product(bytes_per_thread - before, threads)))) {
    return false;
  }
  local_bytes_[gpu] = bytes_per_thread;
  *grown = true;
  return true;
}

void Contexts::ForgetAfterFork() {
  lock_.Forget();
  gpu_of_.Forget();
  for (uint32_t gpu = 0; gpu < kMaxPageGpus; ++gpu) {
    living_[gpu] = 0;
    primary_[gpu] = 0;
    local_bytes_[gpu] = 0;
  }
}

}  // namespace krux::limiter
