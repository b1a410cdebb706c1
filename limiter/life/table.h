// A hash table from a 64-bit key to a plain value, in memory of its own (page_memory.h). Key 0
// means "empty" and can't be stored. Grows at 70 %; removal keeps probe chains whole.
//
// Thread rule: none; its owner holds a lock around every call.
#ifndef KRUX_LIMITER_LIFE_TABLE_H_
#define KRUX_LIMITER_LIFE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "limiter/life/page_memory.h"

namespace krux::limiter {

inline uint64_t MixBits(uint64_t x) {  // the finaliser of MurmurHash3
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

template <typename Value>
class Table {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  Value* Find(uint64_t key) {
    if (capacity_ == 0 || key == 0) return nullptr;
    const size_t i = Probe(key);
    return rows_[i].key == key ? &rows_[i].value : nullptr;
  }

  // The value of `key`, new and zero when it was not there; nullptr when memory is out.
  Value* Insert(uint64_t key) {
    if (key == 0 || ((size_ + 1) * 10 > capacity_ * 7 && !Grow())) return nullptr;
    Row& row = rows_[Probe(key)];
    if (row.key != key) {
      row.key = key;
      row.value = Value{};
      ++size_;
    }
    return &row.value;
  }

  bool Remove(uint64_t key) {
    if (Find(key) == nullptr) return false;
    size_t hole = Probe(key);
    for (size_t i = Next(hole); rows_[i].key != 0; i = Next(i)) {
      const size_t home = MixBits(rows_[i].key) & (capacity_ - 1);
      const bool reachable = hole <= i ? (hole < home && home <= i) : (hole < home || home <= i);
      if (reachable) continue;
      rows_[hole] = rows_[i];
      hole = i;
    }
    rows_[hole].key = 0;
    --size_;
    return true;
  }

  // Removes the rows for which visit(key, value) returns true. It must not use the table.
  template <typename Visit>
  void RemoveIf(Visit visit) {
    for (size_t i = 0; i < capacity_;) {
      const uint64_t key = rows_[i].key;
      // Removal can move another row to this place: look at it again.
      if (key != 0 && visit(key, rows_[i].value)) {
        Remove(key);
      } else {
        ++i;
      }
    }
  }

  size_t size() const { return size_; }

  // In a fork child: the memory stays mapped, its content is forgotten.
  void Forget() {
    rows_ = nullptr;
    capacity_ = 0;
    size_ = 0;
  }

 private:
  struct Row {
    uint64_t key;
    Value value;
  };

  size_t Next(size_t i) const { return (i + 1) & (capacity_ - 1); }
  size_t Probe(uint64_t key) const {
    size_t i = MixBits(key) & (capacity_ - 1);
    while (rows_[i].key != 0 && rows_[i].key != key) i = Next(i);
    return i;
  }

  bool Grow() {
    const size_t capacity = capacity_ == 0 ? 256 : capacity_ * 2;
    Row* rows = static_cast<Row*>(MapPages(capacity * sizeof(Row)));
    if (rows == nullptr) return false;
    Row* old_rows = rows_;
    const size_t old_capacity = capacity_;
    rows_ = rows;
    capacity_ = capacity;
    for (size_t i = 0; i < old_capacity; ++i) {
      if (old_rows[i].key != 0) rows_[Probe(old_rows[i].key)] = old_rows[i];
    }
    if (old_rows != nullptr) UnmapPages(old_rows, old_capacity * sizeof(Row));
    return true;
  }

  Row* rows_ = nullptr;
  size_t capacity_ = 0;  // a power of two
  size_t size_ = 0;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_TABLE_H_
