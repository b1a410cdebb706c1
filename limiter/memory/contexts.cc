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
  if (living_[gpu] > 0 && --living_[gpu] == 0) {
    local_bytes_[gpu] = streams_[gpu] = most_streams_[gpu] = 0;
  }
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

void Contexts::LowerLocalMemory(uint32_t gpu, uint64_t bytes_per_thread, uint64_t threads) {
  const LockGuard guard(lock_);
  if (bytes_per_thread < kLocalBytesIncluded) bytes_per_thread = kLocalBytesIncluded;
  const uint64_t before = local_bytes_[gpu];
  if (before <= bytes_per_thread) return;
  local_bytes_[gpu] = bytes_per_thread;
  // A part less than was charged, so that rounding never returns too much.
  const uint64_t bytes = Product(before - bytes_per_thread, threads) / kSlabBytes * kSlabBytes;
  account_->ReturnContextBytes(gpu, bytes);
}

bool Contexts::AddStream(uint32_t gpu) {
  const LockGuard guard(lock_);
  const uint64_t streams = streams_[gpu] + 1;
  if (streams > most_streams_[gpu]) {
    const uint64_t growth = StreamBytes(streams) - StreamBytes(most_streams_[gpu]);
    if (!account_->ChargeContext(gpu, growth)) return false;
    most_streams_[gpu] = streams;
  }
  streams_[gpu] = streams;
  return true;
}

void Contexts::RemoveStream(uint32_t gpu) {
  const LockGuard guard(lock_);
  if (streams_[gpu] > 0) --streams_[gpu];
}

void Contexts::ForgetAfterFork() {
  lock_.Forget();
  gpu_of_.Forget();
  for (uint32_t gpu = 0; gpu < kMaxPageGpus; ++gpu) {
    living_[gpu] = 0;
    primary_[gpu] = 0;
    local_bytes_[gpu] = streams_[gpu] = most_streams_[gpu] = 0;
  }
}

}  // namespace krux::limiter
