// Any bytes as a history of calls on a cluster: no undefined behaviour; what is chosen fits on the
// node as it was told; and the index says what krux_plan() says.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "scheduler/engine/krux_engine.h"

namespace {

constexpr uint32_t kNodes = 6;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool Ended() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  template <typename T>
  void Raw(T* out) {
    std::memset(out, 0, sizeof(T));
    const size_t bytes = size_ < sizeof(T) ? size_ : sizeof(T);
    std::memcpy(out, data_, bytes);
    data_ += bytes;
    size_ -= bytes;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

void Check(bool holds) {
  if (!holds) std::abort();
}

struct Node {
  krux_node host{};
  std::vector<krux_gpu> gpus;
};

// Mostly sensible, sometimes raw bytes.
krux_gpu GpuOf(Input* in) {
  krux_gpu gpu{};
  if (in->Byte() % 16 == 0) {
    in->Raw(&gpu);
    return gpu;
  }
  gpu.memory_mib = 100U * in->Byte();
  gpu.used_memory_mib = 10U * in->Byte();
  gpu.used_cores = in->Byte() % 110;
  gpu.used_slots = in->Byte() % 5;
  gpu.slots = in->Byte() % 8;
  gpu.flags = in->Byte() % 16;
  gpu.model = in->Byte() % 4;
  gpu.numa = in->Byte() % 3;
  gpu.nvlink = in->Byte();
  gpu.uuid = in->Byte();
  return gpu;
}

struct Asked {
  krux_pod pod{};
  std::array<krux_container, 3> containers{};
  size_t count = 0;
};

Asked AskedOf(Input* in) {
  Asked asked;
  if (in->Byte() % 16 == 0) in->Raw(&asked.pod);
  asked.pod.cpu_milli = 100U * in->Byte();
  if (in->Byte() % 4 == 0) asked.pod.use_models = in->Byte();
  if (in->Byte() % 4 == 0) asked.pod.node_policy = asked.pod.gpu_policy = in->Byte() % 5;
  asked.count = in->Byte() % 4;
  for (size_t i = 0; i < asked.count; ++i) {
    krux_container& c = asked.containers[i];
    if (in->Byte() % 16 == 0) {
      in->Raw(&c);
      continue;
    }
    c.gpus = in->Byte() % 4;
    c.memory_mib = 10U * in->Byte();
    c.cores = in->Byte() % 101;
    c.kind = in->Byte() % 3;
  }
  return asked;
}

void Choose(krux_cluster* cluster, const std::array<Node, kNodes>& nodes, Input* in) {
  const Asked asked = AskedOf(in);
  uint32_t index = 0;
  std::array<krux_placement, 3> placements{};
  krux_verdict verdict;
  const int code = krux_cluster_choose(cluster, &asked.pod, asked.containers.data(), asked.count,
                                       &index, placements.data(), &verdict);
  std::array<int64_t, kNodes> scores{};
  const int64_t written = krux_cluster_scores(cluster, &asked.pod, asked.containers.data(),
                                              asked.count, scores.data(), kNodes);
  Check((code == KRUX_BAD_ARGUMENT) == (written < 0));
  if (code != KRUX_FITS) return;
  Check(index < kNodes && static_cast<int64_t>(index) < written);
  for (int64_t i = 0; i < written; ++i) Check(scores[static_cast<size_t>(i)] <= scores[index]);
  const Node& node = nodes[index];
  std::array<krux_share, KRUX_MAX_GPUS> shares{};
  Check(krux_peak(asked.containers.data(), placements.data(), asked.count, shares.data(),
                  node.gpus.size()) == KRUX_FITS);
  for (size_t g = 0; g < node.gpus.size(); ++g) {
    if (shares[g].slots == 0) continue;
    Check(node.gpus[g].used_memory_mib + shares[g].memory_mib <= node.gpus[g].memory_mib);
    Check(node.gpus[g].used_cores + shares[g].cores <= 100);
    Check(node.gpus[g].used_slots + shares[g].slots <= node.gpus[g].slots);
  }
  krux_mix* mix = krux_cluster_mix(cluster);
  std::array<krux_placement, 3> again{};
  krux_verdict other;
  Check(krux_plan(mix, &node.host, node.gpus.data(), node.gpus.size(), &asked.pod,
                  asked.containers.data(), asked.count, again.data(), &other) == KRUX_FITS);
  krux_mix_free(mix);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  const std::unique_ptr<krux_cluster, void (*)(krux_cluster*)> cluster(krux_cluster_new(),
                                                                       krux_cluster_free);
  std::array<Node, kNodes> nodes;
  int chosen = 0;
  while (!in.Ended()) {
    const uint32_t index = in.Byte() % kNodes;
    switch (in.Byte() % 6) {
      case 0: {
        Node node;
        node.host.cpu_milli = 1000U * in.Byte();
        node.host.used_cpu_milli = 100U * in.Byte();
        for (int gpus = in.Byte() % 10; gpus > 0; --gpus) node.gpus.push_back(GpuOf(&in));
        if (krux_cluster_set(cluster.get(), index, &node.host, node.gpus.data(),
                             node.gpus.size()) == KRUX_FITS) {
          nodes[index] = node;
        }
        break;
      }
      case 1:
        Check(krux_cluster_remove(cluster.get(), index) == KRUX_FITS);
        nodes[index] = {};
        break;
      case 2: {
        const Asked asked = AskedOf(&in);
        (void)krux_cluster_learn(cluster.get(), &asked.pod, asked.containers.data(), asked.count);
        break;
      }
      case 3:
        (void)krux_cluster_tend(cluster.get(), in.Byte());
        break;
      default:
        // Each makes a mix: that is dear, and a few will do.
        if (++chosen < 20) Choose(cluster.get(), nodes, &in);
    }
  }
  return 0;
}
