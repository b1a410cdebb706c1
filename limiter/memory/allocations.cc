#include "limiter/memory/allocations.h"

namespace krux::limiter {

bool Allocations::Add(uint64_t handle, const Record& record) {
  const LockGuard guard(lock_);
  Record* stored = records_.Insert(handle);
  if (stored == nullptr) return false;
  *stored = record;
  return true;
}

bool Allocations::AddSmall(uint64_t address, const Record& record, bool charged) {
  const LockGuard guard(lock_);
  Record* stored = records_.Insert(address);
  if (stored == nullptr) {
    if (charged) account_->Return(record.gpu, kSlabBytes);
    return false;
  }
  const bool new_slab = slabs_.Add(address, record.bytes, record.gpu);
  if (new_slab && !charged && !account_->Charge(record.gpu, kSlabBytes)) {
    slabs_.Remove(address, record.bytes);
    records_.Remove(address);
    return false;
  }
  if (!new_slab && charged) account_->Return(record.gpu, kSlabBytes);
  *stored = record;
  stored->in_slab = true;
  return true;
}

bool Allocations::SmallMayFit(uint64_t bytes, uint32_t gpu) {
  const LockGuard guard(lock_);
  return slabs_.MayFit(bytes, gpu);
}

bool Allocations::TakeOut(uint64_t handle, Record* record) {
  const LockGuard guard(lock_);
  const Record* stored = records_.Find(handle);
  if (stored == nullptr) return false;
  *record = *stored;
  records_.Remove(handle);
  return true;
}

void Allocations::PutBack(uint64_t handle, const Record& record) {
  const LockGuard guard(lock_);
  if (Record* stored = records_.Insert(handle)) *stored = record;
}

void Allocations::ReturnLocked(uint64_t handle, const Record& record) {
  if (record.managed) return managed_->Shrink(record.gpu, record.bytes);
  if (record.unlisted) account_->ForgetUnlisted(record.gpu, record.bytes);
  if (!record.in_slab) {
    account_->Return(record.gpu, record.bytes);
  } else if (slabs_.Remove(handle, record.bytes)) {
    account_->Return(record.gpu, kSlabBytes);
  }
}

void Allocations::Return(uint64_t handle, const Record& record) {
  const LockGuard guard(lock_);
  ReturnLocked(handle, record);
}

void Allocations::ReturnAllOf(uint64_t context) {
  const LockGuard guard(lock_);
  records_.RemoveIf([&](uint64_t handle, const Record& record) {
    if (record.context != context) return false;
    ReturnLocked(handle, record);
    return true;
  });
}

size_t Allocations::size() {
  const LockGuard guard(lock_);
  return records_.size();
}

void Allocations::ForgetAfterFork() {
  lock_.Forget();
  records_.Forget();
  slabs_.Forget();
}

}  // namespace krux::limiter
