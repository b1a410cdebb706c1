// The engine behind its C interface, as the scheduler plugin uses it.
#ifndef KRUX_SCHEDULER_SIMULATE_KRUX_CHOOSER_H_
#define KRUX_SCHEDULER_SIMULATE_KRUX_CHOOSER_H_

#include <memory>
#include <random>
#include <vector>

#include "scheduler/engine/krux_engine.h"
#include "scheduler/simulate/chooser.h"

namespace krux::simulate {

class KruxChooser : public Chooser {
 public:
  // policy: KRUX_FRAGMENTATION and so on. trace = nullptr: nothing is known beforehand.
  KruxChooser(uint32_t policy, const std::vector<NodeShape>& nodes, const Trace* trace,
              const Disturbance& disturbance);

  bool Add(const Request& request, Place* place) override;
  void Remove(const Request& request, const Place& place) override;

 private:
  struct Free {
    void operator()(krux_cluster* cluster) const { krux_cluster_free(cluster); }
  };
  struct Node {
    krux_node host{};
    std::vector<krux_gpu> gpus;
  };
  struct Asked {
    krux_pod pod{};
    krux_container container{};
    size_t containers = 0;
  };

  void UseMixOf(const Trace& trace);
  Asked AskedOf(const Request& request) const;
  void Charge(const Request& request, const Place& place, bool add);
  bool ChooseDisturbed(const Asked& asked, uint32_t* node);

  const uint32_t policy_;
  const Disturbance disturbance_;
  const bool learns_;
  std::unique_ptr<krux_cluster, Free> cluster_;
  std::vector<Node> nodes_;
  std::vector<int64_t> scores_;
  std::mt19937_64 random_;
  size_t start_ = 0;  // of the part of the nodes that is looked at
};

// The node that kube-scheduler would take by these scores; false: none fits.
bool PickDisturbed(const std::vector<int64_t>& scores, const Disturbance& disturbance,
                   std::mt19937_64* random, size_t* start, uint32_t* node);

}  // namespace krux::simulate

#endif  // KRUX_SCHEDULER_SIMULATE_KRUX_CHOOSER_H_
