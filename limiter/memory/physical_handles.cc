#include "limiter/memory/physical_handles.h"

namespace krux::limiter {

bool PhysicalHandles::Add(uint64_t handle, uint32_t gpu, uint64_t bytes) {
  const LockGuard guard(lock_);
  Memory* memory = memories_.Insert(last_key_ + 1);
  if (memory == nullptr) return false;
  uint64_t* key = handles_.Insert(handle);
  if (key == nullptr) {
    memories_.Remove(last_key_ + 1);
    return false;
  }
  *key = ++last_key_;
  *memory = Memory{bytes, gpu, 1, 0};
  return true;
}

void PhysicalHandles::ReturnIfUnusedLocked(uint64_t key) {
  const Memory* memory = memories_.Find(key);
  if (memory == nullptr || memory->references != 0 || memory->mappings != 0) return;
  account_->Return(memory->gpu, memory->bytes);
  memories_.Remove(key);
}

void PhysicalHandles::OnRelease(uint64_t handle) {
  const LockGuard guard(lock_);
  const uint64_t* found = handles_.Find(handle);
  if (found == nullptr) return;
  const uint64_t key = *found;
  Memory* memory = memories_.Find(key);
  if (memory == nullptr) return;
  if (memory->references > 0 && --memory->references == 0) {
    handles_.RemoveIf([key](uint64_t, uint64_t other) { return other == key; });
  }
  ReturnIfUnusedLocked(key);
}

void PhysicalHandles::OnMap(uint64_t address, uint64_t bytes, uint64_t handle) {
  const LockGuard guard(lock_);
  const uint64_t* key = handles_.Find(handle);
  Memory* memory = key == nullptr ? nullptr : memories_.Find(*key);
  if (memory == nullptr) return;
  Mapping* mapping = mappings_.Insert(address);
  if (mapping == nullptr) return;
  *mapping = Mapping{bytes, *key};
  ++memory->mappings;
}

void PhysicalHandles::OnUnmap(uint64_t address, uint64_t bytes) {
  const LockGuard guard(lock_);
  const auto drop = [this](const Mapping& mapping) {
    Memory* memory = memories_.Find(mapping.memory);
    if (memory != nullptr && memory->mappings > 0) --memory->mappings;
    ReturnIfUnusedLocked(mapping.memory);
  };
  // One mapping of just this range is the common case.
  if (const Mapping* found = mappings_.Find(address); found != nullptr && found->bytes >= bytes) {
    const Mapping mapping = *found;
    mappings_.Remove(address);
    drop(mapping);
    return;
  }
  mappings_.RemoveIf([&](uint64_t start, const Mapping& mapping) {
    if (start < address || start - address >= bytes) return false;
    drop(mapping);
    return true;
  });
}

void PhysicalHandles::OnRetain(uint64_t handle, uint64_t address) {
  const LockGuard guard(lock_);
  uint64_t key = 0;
  mappings_.RemoveIf([&](uint64_t start, const Mapping& mapping) {
    if (address >= start && address - start < mapping.bytes) key = mapping.memory;
    return false;
  });
  Memory* memory = memories_.Find(key);
  uint64_t* stored = memory == nullptr ? nullptr : handles_.Insert(handle);
  if (stored == nullptr) return;
  *stored = key;
  ++memory->references;
}

void PhysicalHandles::ForgetAfterFork() {
  lock_.Forget();
  memories_.Forget();
  handles_.Forget();
  mappings_.Forget();
}

}  // namespace krux::limiter
