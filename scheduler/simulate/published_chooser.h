// The published policies that Krux is compared with, written anew from their description (Weng et
// al., USENIX ATC 2023, and the constants of its simulator): FGD, and best fit over CPU and GPU.
#ifndef KRUX_SCHEDULER_SIMULATE_PUBLISHED_CHOOSER_H_
#define KRUX_SCHEDULER_SIMULATE_PUBLISHED_CHOOSER_H_

#include <array>
#include <random>
#include <vector>

#include "scheduler/simulate/chooser.h"

namespace krux::simulate {

enum class PublishedPolicy { kFgd, kBestFit, kRandom };

class PublishedChooser : public Chooser {
 public:
  PublishedChooser(PublishedPolicy policy, const std::vector<NodeShape>& nodes, const Trace& trace,
                   const Disturbance& disturbance);

  bool Add(const Request& request, Place* place) override;
  void Remove(const Request& request, const Place& place) override;

 private:
  static constexpr size_t kMostGpus = 8;
  struct Node {
    int64_t cpu_milli = 0;
    int64_t memory_mib = 0;
    int gpus = 0;
    uint32_t model = 0;
    uint32_t version = 0;
    std::array<int64_t, kMostGpus> free{};  // 1/1000
  };
  struct Typical {
    Request request;
    double weight = 0;
  };
  // A request's score on a node, as of the node's version.
  struct Cached {
    uint32_t version = ~0U;
    int32_t gpu = 0;
    int64_t score = 0;  // KRUX_NO_SCORE: does not fit
  };

  void FindTypicals(const Trace& trace);
  static bool Fits(const Node& node, const Request& request);
  static void Take(const Request& request, int gpu, Node* node, Place* place);
  double Fragmentation(const Node& node) const;
  int64_t Score(const Node& node, const Request& request, int* gpu);
  int64_t FgdScore(const Node& node, const Request& request, int* gpu) const;

  const PublishedPolicy policy_;
  const Disturbance disturbance_;
  const Trace& trace_;
  std::vector<Node> nodes_;
  std::vector<Typical> typicals_;
  std::vector<std::vector<Cached>> cache_;  // by request and node
  std::vector<int64_t> scores_;
  std::mt19937_64 random_;
  size_t start_ = 0;
};

}  // namespace krux::simulate

#endif  // KRUX_SCHEDULER_SIMULATE_PUBLISHED_CHOOSER_H_
