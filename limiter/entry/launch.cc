// Launches: every one passes the gate. What a kernel costs is learned by its function and the size
// of its grid; what a graph costs by its exec.
#include "limiter/entry/entry.h"

namespace {

using namespace krux::limiter;

uint64_t NumberOf(const void* handle) { return reinterpret_cast<uint64_t>(handle); }

Cost& GraphCost(CUgraphExec graph) {
  return Self().costs.Find(CostModel::KeyOf(NumberOf(graph), 0));
}

struct Grid {
  uint64_t x, y, z;
  uint64_t Blocks() const { return x * y * z; }
};

template <typename Call>
CUresult LaunchKernel(CUfunction function, Grid grid, CUstream stream, DefaultStream default_stream,
                      Call call) {
  Cost& cost = Self().costs.Find(CostModel::KeyOf(NumberOf(function), grid.Blocks()));
  bool grown = false;
  if (!LocalMemoryFits(function, &grown)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = GatedLaunch(stream, default_stream, cost, call);
  if (grown) Self().link.Send(krux::wire::EventKind::kContextMade, Self().devices.CurrentGpu(), 0);
  return result;
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                        void** parameters, void** extra) {
  const auto call = [&] {
    return Real().cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                 shared_bytes, stream, parameters, extra);
  };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return LaunchKernel(function, {grid_x, grid_y, grid_z}, stream, DefaultStream::kLegacy, call);
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                             unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                             unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                             void** parameters, void** extra) {
  const auto call = [&] {
    return Real().cuLaunchKernel_ptsz(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                      shared_bytes, stream, parameters, extra);
  };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return LaunchKernel(function, {grid_x, grid_y, grid_z}, stream, DefaultStream::kPerThread, call);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  const auto call = [&] { return Real().cuLaunchKernelEx(config, function, parameters, extra); };
  const EntryGuard guard;
  if (!guard.active() || config == nullptr) return call();
  return LaunchKernel(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                      config->hStream, DefaultStream::kLegacy, call);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** parameters,
                               void** extra) {
  const auto call = [&] {
    return Real().cuLaunchKernelEx_ptsz(config, function, parameters, extra);
  };
  const EntryGuard guard;
  if (!guard.active() || config == nullptr) return call();
  return LaunchKernel(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                      config->hStream, DefaultStream::kPerThread, call);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                   void** parameters) {
  const auto call = [&] {
    return Real().cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y,
                                            block_z, shared_bytes, stream, parameters);
  };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return LaunchKernel(function, {grid_x, grid_y, grid_z}, stream, DefaultStream::kLegacy, call);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x,
                                        unsigned int grid_y, unsigned int grid_z,
                                        unsigned int block_x, unsigned int block_y,
                                        unsigned int block_z, unsigned int shared_bytes,
                                        CUstream stream, void** parameters) {
  const auto call = [&] {
    return Real().cuLaunchCooperativeKernel_ptsz(function, grid_x, grid_y, grid_z, block_x, block_y,
                                                 block_z, shared_bytes, stream, parameters);
  };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return LaunchKernel(function, {grid_x, grid_y, grid_z}, stream, DefaultStream::kPerThread, call);
}

// The launches of CUDA 1 to 3: on the legacy default stream, their grid beside the function.
CUresult cuLaunch(CUfunction function) {
  const auto call = [&] { return Real().cuLaunch(function); };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return LaunchKernel(function, {1, 1, 1}, nullptr, DefaultStream::kLegacy, call);
}

CUresult cuLaunchGrid(CUfunction function, int grid_x, int grid_y) {
  const auto call = [&] { return Real().cuLaunchGrid(function, grid_x, grid_y); };
  const EntryGuard guard;
  if (!guard.active()) return call();
  const Grid grid{static_cast<uint32_t>(grid_x), static_cast<uint32_t>(grid_y), 1};
  return LaunchKernel(function, grid, nullptr, DefaultStream::kLegacy, call);
}

CUresult cuLaunchGridAsync(CUfunction function, int grid_x, int grid_y, CUstream stream) {
  const auto call = [&] { return Real().cuLaunchGridAsync(function, grid_x, grid_y, stream); };
  const EntryGuard guard;
  if (!guard.active()) return call();
  const Grid grid{static_cast<uint32_t>(grid_x), static_cast<uint32_t>(grid_y), 1};
  return LaunchKernel(function, grid, stream, DefaultStream::kLegacy, call);
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  const auto call = [&] { return Real().cuGraphLaunch(graph, stream); };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return GatedLaunch(stream, DefaultStream::kLegacy, GraphCost(graph),
                     [&] { return TakingGraphMemory(graph, call); });
}

CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
  const auto call = [&] { return Real().cuGraphLaunch_ptsz(graph, stream); };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return GatedLaunch(stream, DefaultStream::kPerThread, GraphCost(graph),
                     [&] { return TakingGraphMemory(graph, call); });
}
