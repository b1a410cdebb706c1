// One class of pods: its score on every node, kept with the maximum of each block of nodes, so that
// the best node is found without looking at all of them.
//
// Used by Cluster; one thread at a time.
#ifndef KRUX_SCHEDULER_ENGINE_SCORE_ROW_H_
#define KRUX_SCHEDULER_ENGINE_SCORE_ROW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "scheduler/engine/node_index.h"

namespace krux::engine {

class ScoreRow {
 public:
  size_t size() const { return nodes_; }
  Score operator[](size_t index) const { return scores_[index]; }

  void Resize(size_t nodes) {
    if (nodes == nodes_) return;
    nodes_ = nodes;
    const size_t blocks = (nodes + kBlock - 1) / kBlock;
    scores_.resize(blocks * kBlock, kNoScore);
    most_.resize((blocks + kLanes - 1) / kLanes * kLanes, kNoScore);
  }

  void Set(uint32_t index, Score score) {
    const Score old = scores_[index];
    if (old == score) return;
    scores_[index] = score;
    Score& most = most_[index / kBlock];
    if (score >= most) {
      most = score;
    } else if (old == most) {
      most = MostOf(&scores_[index / kBlock * kBlock], kBlock);
    }
  }

  // Sets every node's score to score_of(index); cheaper than one Set() after another.
  template <typename ScoreOf>
  void SetAll(const ScoreOf& score_of) {
    for (size_t i = 0; i < nodes_; ++i) scores_[i] = score_of(static_cast<uint32_t>(i));
    for (size_t i = 0; i < scores_.size(); i += kBlock) {
      most_[i / kBlock] = MostOf(&scores_[i], kBlock);
    }
  }

  // gcc takes a function that only fetches for one without effect, and leaves out the call.
  [[gnu::always_inline]] void Prefetch(uint32_t index) const {
    if (index < nodes_) __builtin_prefetch(&scores_[index], 1);
  }

  // The lowest index of the highest score.
  std::optional<uint32_t> Best() const {
    const Score best = MostOf(most_.data(), most_.size());
    if (best == kNoScore) return std::nullopt;
    size_t block = 0;
    while (most_[block] != best) ++block;
    size_t index = block * kBlock;
    while (scores_[index] != best) ++index;
    return static_cast<uint32_t>(index);
  }

 private:
  static constexpr size_t kBlock = 64;
  static constexpr size_t kLanes = 8;

  // Lane by lane: one after another, each comparison would wait for the one before.
  // REQUIRES: size is a multiple of kLanes.
  static Score MostOf(const Score* scores, size_t size) {
    using Lanes [[gnu::vector_size(kLanes * sizeof(Score)), gnu::aligned(alignof(Score))]] = Score;
    Lanes most = Lanes{} + kNoScore;
    for (size_t i = 0; i < size; i += kLanes) {
      Lanes next;
      std::memcpy(&next, scores + i, sizeof next);
      most = most > next ? most : next;
    }
    Score best = kNoScore;
    for (size_t lane = 0; lane < kLanes; ++lane) best = std::max(best, most[lane]);
    return best;
  }

  size_t nodes_ = 0;
  std::vector<Score> scores_;  // whole blocks: kNoScore beyond the last node
  std::vector<Score> most_;    // of each block
};

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_SCORE_ROW_H_
