// One word per thread that says "I am between the gate's check and the end of the driver's launch".
// Only with these words can the keeper know for certain that no launch of an old lease is still on
// its way: drained = all words clear, then all markers seen.
//
// Clearing is a plain store: right behind a launch any locked instruction would wait until the
// driver's write to the card's doorbell is out (200 ns on an H200).
//
// Thread rule: Mine is for the calling thread; AllClear and LaunchingOn for anyone. Threads beyond
// the table's size share one word, which is a counter.
#ifndef KRUX_LIMITER_COMPUTE_THREAD_WORDS_H_
#define KRUX_LIMITER_COMPUTE_THREAD_WORDS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "limiter/life/lock.h"

namespace krux::limiter {

class ThreadWords {
 public:
  struct alignas(64) Word {
    std::atomic<uint32_t> launching{0};
    std::atomic<uint32_t> owners{0};
    std::atomic<const void*> stream{nullptr};  // where its owner launches
    bool is_shared = false;

    void Enter(const void* launch_stream) {
      if (is_shared) {
        launching.fetch_add(1, std::memory_order_seq_cst);
      } else {
        stream.store(launch_stream, std::memory_order_relaxed);
        launching.exchange(1, std::memory_order_seq_cst);
      }
    }
    void Leave() {
      if (is_shared) {
        launching.fetch_sub(1, std::memory_order_release);
      } else {
        launching.store(0, std::memory_order_release);
      }
    }
  };

  // Before the first Mine. Without memory for the table all threads share one word.
  void Init();

  Word& Mine() {
    Word* word = mine_;
    return __builtin_expect(word != nullptr, 1) ? *word : Take();
  }
  bool AllClear() const;
  // Whether a thread is between its gate and the end of its launch on the stream.
  bool LaunchingOn(const void* stream) const;
  void ForgetAfterFork();

 private:
  static constexpr size_t kWords = 4096;

  Word& Take();
  static void OnThreadExit(void* word);

  static constinit thread_local Word* mine_;
  Word* words_ = nullptr;
  Word shared_;
  std::atomic<size_t> used_{0};  // words below this index may be in use
  Lock lock_;
  bool has_exit_key_ = false;
  unsigned exit_key_ = 0;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_COMPUTE_THREAD_WORDS_H_
