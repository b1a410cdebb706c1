// One class of pods: its score on every node, kept with the maximum of each block of nodes, so that
// the best node is found without looking at all of them.
//
// Used by Cluster; one thread at a time.
#ifndef KRUX_SCHEDULER_ENGINE_SCORE_ROW_H_
#define KRUX_SCHEDULER_ENGINE_SCORE_ROW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/engine/node_index.h"

namespace krux::engine {

class ScoreRow {
 public:
  size_t size() const { return scores_.size(); }
  Score operator[](size_t index) const { return scores_[index]; }

  void Resize(size_t nodes) {
    scores_.resize(nodes, kNoScore);
    most_.resize((nodes + kBlock - 1) / kBlock, kNoScore);
  }

  void Set(uint32_t index, Score score) {
    const Score old = scores_[index];
    if (old == score) return;
    scores_[index] = score;
    Score& most = most_[index / kBlock];
    if (score >= most) {
      most = score;
    } else if (old == most) {
      most = MostOf(index / kBlock);
    }
  }

  // The lowest index of the highest score.
  std::optional<uint32_t> Best() const {
    Score best = kNoScore;
    size_t block = 0;
    for (const Score most : most_) best = std::max(best, most);
    if (best == kNoScore) return std::nullopt;
    while (most_[block] != best) ++block;
    size_t index = block * kBlock;
    while (scores_[index] != best) ++index;
    return static_cast<uint32_t>(index);
  }

 private:
  static constexpr size_t kBlock = 64;

  Score MostOf(size_t block) const {
    Score most = kNoScore;
    const size_t end = std::min(scores_.size(), (block + 1) * kBlock);
    for (size_t i = block * kBlock; i < end; ++i) most = std::max(most, scores_[i]);
    return most;
  }

  std::vector<Score> scores_;
  std::vector<Score> most_;  // of each block
};

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_SCORE_ROW_H_
