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
  *memory = Memory{bytes, gpu, 1, 0, false};
  return true;
}

uint32_t PhysicalHandles::ReturnIfUnusedLocked(uint64_t key) {
  const Memory* memory = memories_.Find(key);
  if (memory == nullptr || memory->references != 0 || memory->mappings != 0) return 0;
  const Memory gone = *memory;
  memories_.Remove(key);
  if (!gone.exported) {
    account_->Return(gone.gpu, gone.bytes);
    return 0;
  }
  account_->GiveToAgent(gone.gpu, gone.bytes);
  return 1U << gone.gpu;
}

uint32_t PhysicalHandles::DropMappingLocked(uint64_t key) {
  Memory* memory = memories_.Find(key);
  if (memory != nullptr && memory->mappings > 0) --memory->mappings;
  return ReturnIfUnusedLocked(key);
}

uint32_t PhysicalHandles::OnRelease(uint64_t handle) {
  const LockGuard guard(lock_);
  const uint64_t* found = handles_.Find(handle);
  if (found == nullptr) return 0;
  const uint64_t key = *found;
  Memory* memory = memories_.Find(key);
  if (memory == nullptr) return 0;
  if (memory->references > 0 && --memory->references == 0) {
    handles_.RemoveIf([key](uint64_t, uint64_t other) { return other == key; });
  }
  return ReturnIfUnusedLocked(key);
}

void PhysicalHandles::OnExport(uint64_t handle) {
  const LockGuard guard(lock_);
  const uint64_t* key = handles_.Find(handle);
  Memory* memory = key == nullptr ? nullptr : memories_.Find(*key);
  if (memory != nullptr) memory->exported = true;
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

uint32_t PhysicalHandles::OnUnmap(uint64_t address, uint64_t bytes) {
  const LockGuard guard(lock_);
  // One mapping of just this range is the common case.
  if (const Mapping* found = mappings_.Find(address); found != nullptr && found->bytes >= bytes) {
    const uint64_t key = found->memory;
    mappings_.Remove(address);
    return DropMappingLocked(key);
  }
  uint32_t to_settle = 0;
  mappings_.RemoveIf([&](uint64_t start, const Mapping& mapping) {
    if (start < address || start - address >= bytes) return false;
    to_settle |= DropMappingLocked(mapping.memory);
    return true;
  });
  return to_settle;
}

void PhysicalHandles::OnPin(uint64_t resource, uint64_t place, uint64_t handle) {
  const LockGuard guard(lock_);
  const uint64_t* key = handles_.Find(handle);
  Memory* memory = key == nullptr ? nullptr : memories_.Find(*key);
  if (memory == nullptr) return;
  ++memory->mappings;
  const uint64_t at = MixBits(resource ^ MixBits(place)) | 1;
  const Pin* old = pins_.Find(at);
  const uint64_t replaced = old == nullptr ? 0 : old->memory;
  // Without memory for the note the pin stays for ever.
  if (Pin* pin = pins_.Insert(at)) *pin = Pin{resource, *key};
  if (replaced != 0) static_cast<void>(DropMappingLocked(replaced));
}

uint32_t PhysicalHandles::OnUnpin(uint64_t resource, uint64_t place) {
  const LockGuard guard(lock_);
  const uint64_t at = MixBits(resource ^ MixBits(place)) | 1;
  const Pin* pin = pins_.Find(at);
  if (pin == nullptr) return 0;
  const uint64_t key = pin->memory;
  pins_.Remove(at);
  return DropMappingLocked(key);
}

uint32_t PhysicalHandles::OnResourceGone(uint64_t resource) {
  const LockGuard guard(lock_);
  if (pins_.size() == 0) return 0;
  uint32_t to_settle = 0;
  pins_.RemoveIf([&](uint64_t, const Pin& pin) {
    if (pin.resource != resource) return false;
    to_settle |= DropMappingLocked(pin.memory);
    return true;
  });
  return to_settle;
}

uint64_t PhysicalHandles::HandleAt(uint64_t address) {
  const LockGuard guard(lock_);
  uint64_t key = 0;
  mappings_.RemoveIf([&](uint64_t start, const Mapping& mapping) {
    if (address >= start && address - start < mapping.bytes) key = mapping.memory;
    return false;
  });
  uint64_t handle = 0;
  handles_.RemoveIf([&](uint64_t candidate, uint64_t other) {
    if (other == key && key != 0) handle = candidate;
    return false;
  });
  return handle;
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
  pins_.Forget();
}

}  // namespace krux::limiter
