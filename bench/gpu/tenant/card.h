// A tenant's view of the card: context, streams and kernels by the driver API, as any program has
// them. Ends the program with one line when a call fails.
// Thread rule: one thread.
#ifndef KRUX_BENCH_GPU_TENANT_CARD_H_
#define KRUX_BENCH_GPU_TENANT_CARD_H_

#include <cuda.h>

#include <string>

namespace krux::bench {

void Check(CUresult result, const char* what);

enum class StreamKind { kOwn, kLegacy, kPerThread };

// A kernel of one length on a part of the card, or a graph of several of them.
struct Work {
  CUfunction function = nullptr;
  unsigned blocks = 0;
  unsigned iterations = 0;
  CUgraphExec graph = nullptr;  // not null: launched instead of the kernel
  unsigned kernels = 1;         // in one launch
};

class Card {
 public:
  Card();
  unsigned multiprocessors() const { return multiprocessors_; }

  CUstream Stream(StreamKind kind) const;
  // Each work is a function of its own (as in real programs), so its length is its own to learn.
  // `multiprocessors` 0: all. `graph` > 1: so many kernels as one graph.
  Work MakeWork(unsigned iterations, unsigned multiprocessors, unsigned graph);
  // The empty kernel, one block of 32 threads.
  Work MakeEmpty();
  void Launch(const Work& work, CUstream stream) const;
  // Loop count of a kernel on all multiprocessors that takes `us` microseconds back to back.
  unsigned Calibrate(double us, unsigned multiprocessors);

 private:
  CUfunction Load(const char* name) const;
  void LaunchKernel(const Work& work, CUstream stream) const;

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream own_ = nullptr;
  CUdeviceptr out_ = 0;
  unsigned multiprocessors_ = 0;
};

}  // namespace krux::bench

#endif  // KRUX_BENCH_GPU_TENANT_CARD_H_
