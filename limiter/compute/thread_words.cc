#include "limiter/compute/thread_words.h"

#include "limiter/driver/loader.h"
#include "limiter/life/page_memory.h"

namespace krux::limiter {

constinit thread_local ThreadWords::Word* ThreadWords::mine_ = nullptr;

void ThreadWords::Init() {
  if (words_ == nullptr) words_ = static_cast<Word*>(MapPages(kWords * sizeof(Word)));
}

ThreadWords::Word& ThreadWords::Take() {
  const LockGuard guard(lock_);
  shared_.is_shared = true;
  if (words_ == nullptr) return shared_;
  const ThreadFunctions threads = RealThreadFunctions();
  if (!has_exit_key_ && threads.key_create != nullptr) {
    has_exit_key_ = threads.key_create(&exit_key_, &OnThreadExit) == 0;
  }
  const size_t used = used_.load(std::memory_order_relaxed);
  size_t index = 0;
  while (index < used && words_[index].owners.load(std::memory_order_relaxed) != 0) ++index;
  if (index == kWords) {
    mine_ = &shared_;
    return shared_;
  }
  Word& word = words_[index];
  word.owners.fetch_add(1, std::memory_order_relaxed);
  if (index >= used) used_.store(index + 1, std::memory_order_seq_cst);
  if (has_exit_key_) threads.set_specific(exit_key_, &word);
  mine_ = &word;
  return word;
}

void ThreadWords::OnThreadExit(void* word) {
  static_cast<Word*>(word)->owners.fetch_sub(1, std::memory_order_release);
  mine_ = nullptr;
}

bool ThreadWords::AllClear() const {
  if (shared_.launching.load(std::memory_order_seq_cst) != 0) return false;
  const size_t used = used_.load(std::memory_order_seq_cst);
  for (size_t i = 0; i < used; ++i) {
    if (words_[i].launching.load(std::memory_order_seq_cst) != 0) return false;
  }
  return true;
}

bool ThreadWords::LaunchingOn(const void* stream) const {
  if (shared_.launching.load(std::memory_order_seq_cst) != 0) return true;
  const size_t used = used_.load(std::memory_order_seq_cst);
  for (size_t i = 0; i < used; ++i) {
    if (words_[i].launching.load(std::memory_order_seq_cst) != 0 &&
        words_[i].stream.load(std::memory_order_relaxed) == stream) {
      return true;
    }
  }
  return false;
}

void ThreadWords::ForgetAfterFork() {
  lock_.Forget();
  words_ = nullptr;
  used_.store(0, std::memory_order_relaxed);
  mine_ = nullptr;
}

}  // namespace krux::limiter
