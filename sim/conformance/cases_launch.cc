// Launches: shapes, parameters, attributes, cooperative ones; occupancy.
#include <string>
#include <vector>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

void Shape(Answer& out, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
           unsigned bz, unsigned shared = 0) {
  out("launch", CU(cuLaunchKernel, Kernel("empty"), gx, gy, gz, bx, by, bz, shared, nullptr,
                   nullptr, nullptr));
  out("sync", CU(cuCtxSynchronize));
}

CUlaunchConfig Config(unsigned blocks = 1, unsigned threads = 32) {
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = threads;
  config.blockDimY = config.blockDimZ = 1;
  return config;
}

void WithAttribute(Answer& out, CUlaunchAttributeID id, const CUlaunchAttributeValue& value,
                   unsigned blocks = 1) {
  CUlaunchConfig config = Config(blocks);
  CUlaunchAttribute attribute{};
  attribute.id = id;
  attribute.value = value;
  config.attrs = &attribute;
  config.numAttrs = 1;
  out("launch", CU(cuLaunchKernelEx, &config, Kernel("empty"), nullptr, nullptr));
  out("sync", CU(cuCtxSynchronize));
}
CUlaunchAttributeValue Cluster(unsigned width) {
  CUlaunchAttributeValue value{};
  value.clusterDim.x = width;
  value.clusterDim.y = value.clusterDim.z = 1;
  return value;
}

void Blocks(Answer& out, const char* name, int threads, size_t shared) {
  int blocks = 77;
  out("result",
      CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, Kernel(name), threads, shared));
  out("blocks", blocks);
}

const Case kCases[] = {
    {"launch.shape.one", kContext, [](Answer& out) { Shape(out, 1, 1, 1, 1, 1, 1); }},
    {"launch.shape.block-1024", kContext, [](Answer& out) { Shape(out, 1, 1, 1, 1024, 1, 1); }},
    {"launch.shape.block-1025", kContext, [](Answer& out) { Shape(out, 1, 1, 1, 1025, 1, 1); }},
    {"launch.shape.block-product", kContext, [](Answer& out) { Shape(out, 1, 1, 1, 64, 32, 2); }},
    {"launch.shape.block-z-65", kContext, [](Answer& out) { Shape(out, 1, 1, 1, 1, 1, 65); }},
    {"launch.shape.no-grid", kContext, [](Answer& out) { Shape(out, 0, 1, 1, 32, 1, 1); }},
    {"launch.shape.no-block", kContext, [](Answer& out) { Shape(out, 1, 1, 1, 32, 0, 1); }},
    {"launch.shape.grid-y-65535", kContext, [](Answer& out) { Shape(out, 1, 65535, 1, 1, 1, 1); }},
    {"launch.shape.grid-y-65536", kContext, [](Answer& out) { Shape(out, 1, 65536, 1, 1, 1, 1); }},
    {"launch.shape.grid-x-2g", kContext,
     [](Answer& out) { Shape(out, 0x80000000U, 1, 1, 1, 1, 1); }},
    {"launch.shared.48k", kContext, [](Answer& out) { Shape(out, 1, 1, 1, 32, 1, 1, 49152); }},
    {"launch.shared.48k+1", kContext, [](Answer& out) { Shape(out, 1, 1, 1, 32, 1, 1, 49153); }},
    {"launch.shared.allowed", kContext,
     [](Answer& out) {
       CUfunction kernel = Kernel("empty");
       CU(cuFuncSetAttribute, kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000);
       Shape(out, 1, 1, 1, 32, 1, 1, 100000);
       Shape(out, 1, 1, 1, 32, 1, 1, 100001);
     },
     kOwnProcess},
    {"launch.null-function", kContext, [](Answer& out) { out(Launch(nullptr)); }},
    {"launch.parameters", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       unsigned number = 1;
       unsigned short small = 2;
       void* parameters[] = {&pointer, &number, &small};
       out("launch", Launch(Kernel("three"), nullptr, parameters));
       out("sync", CU(cuCtxSynchronize));
       out("none", Launch(Kernel("three"), nullptr, nullptr));
     }},
    {"launch.parameters.buffer", kContext,
     [](Answer& out) {
       struct {
         CUdeviceptr pointer;
         unsigned number;
         unsigned short small;
       } values{};
       size_t size = 14;
       void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &values, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                        CU_LAUNCH_PARAM_END};
       auto launch = [&](void** parameters) {
         return CU(cuLaunchKernel, Kernel("three"), 1U, 1U, 1U, 32U, 1U, 1U, 0U, nullptr,
                   parameters, extra);
       };
       out("launch", launch(nullptr));
       size = 4;
       out("short", launch(nullptr));
       size = 200;
       out("long", launch(nullptr));
       size = 14;
       void* parameters[] = {&values.pointer, &values.number, &values.small};
       out("both", launch(parameters));
       out("sync", CU(cuCtxSynchronize));
     }},
    {"launch.stream.kinds", kContext,
     [](Answer& out) {
       out("legacy", Launch(Kernel("empty"), CU_STREAM_LEGACY));
       out("per-thread", Launch(Kernel("empty"), CU_STREAM_PER_THREAD));
       out("sync", CU(cuCtxSynchronize));
     }},
    {"launch.extended", kContext,
     [](Answer& out) {
       CUlaunchConfig config = Config();
       out("launch", CU(cuLaunchKernelEx, &config, Kernel("empty"), nullptr, nullptr));
       out("null", CU(cuLaunchKernelEx, nullptr, Kernel("empty"), nullptr, nullptr));
       config.numAttrs = 1;
       out("no-attributes", CU(cuLaunchKernelEx, &config, Kernel("empty"), nullptr, nullptr));
       out("sync", CU(cuCtxSynchronize));
     }},
    {"launch.attribute.unknown", kContext,
     [](Answer& out) { WithAttribute(out, Odd<CUlaunchAttributeID>(60), {}); }},
    {"launch.attribute.ignore", kContext,
     [](Answer& out) { WithAttribute(out, CU_LAUNCH_ATTRIBUTE_IGNORE, {}); }},
    {"launch.attribute.cooperative", kContext,
     [](Answer& out) {
       CUlaunchAttributeValue value{};
       value.cooperative = 1;
       WithAttribute(out, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value);
       WithAttribute(out, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value, 1000000);
     }},
    {"launch.attribute.priority", kContext,
     [](Answer& out) {
       CUlaunchAttributeValue value{};
       value.priority = -3;
       WithAttribute(out, CU_LAUNCH_ATTRIBUTE_PRIORITY, value);
     }},
    {"launch.attribute.cluster", kContext,
     [](Answer& out) {
       for (const unsigned width : {2U, 8U, 16U, 32U}) {
         WithAttribute(out, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, Cluster(width), 64);
       }
       WithAttribute(out, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, Cluster(3), 64);
     }},
    {"launch.attribute.programmatic", kContext,
     [](Answer& out) {
       CUlaunchAttributeValue value{};
       value.programmaticStreamSerializationAllowed = 1;
       WithAttribute(out, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, value);
     }},
    {"launch.cooperative", kContext,
     [](Answer& out) {
       auto launch = [](unsigned blocks) {
         return CU(cuLaunchCooperativeKernel, Kernel("empty"), blocks, 1U, 1U, 1024U, 1U, 1U, 0U,
                   nullptr, nullptr);
       };
       int processors = 0;
       CU(cuDeviceGetAttribute, &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
       const auto most = static_cast<unsigned>(processors) * 2;
       out("fits", launch(most));
       out("too-large", launch(most + 1));
       out("sync", CU(cuCtxSynchronize));
     }},
    {"launch.old-style", kContext,
     [](Answer& out) {
       CUfunction kernel = Kernel("empty");
       out("shape", CU(cuFuncSetBlockShape, kernel, 32, 1, 1));
       out("shared", CU(cuFuncSetSharedSize, kernel, 0U));
       out("size", CU(cuParamSetSize, kernel, 0U));
       out("launch", CU(cuLaunchGrid, kernel, 1, 1));
       out("sync", CU(cuCtxSynchronize));
     },
     kOwnProcess},
    {"occupancy.blocks.32", kContext, [](Answer& out) { Blocks(out, "empty", 32, 0); }},
    {"occupancy.blocks.256", kContext, [](Answer& out) { Blocks(out, "empty", 256, 0); }},
    {"occupancy.blocks.1024", kContext, [](Answer& out) { Blocks(out, "empty", 1024, 0); }},
    {"occupancy.blocks.shared", kContext, [](Answer& out) { Blocks(out, "empty", 32, 49152); }},
    {"occupancy.blocks.static-shared", kContext,
     [](Answer& out) { Blocks(out, "shared_4k", 32, 0); }},
    {"occupancy.blocks.too-much-shared", kContext,
     [](Answer& out) { Blocks(out, "empty", 32, 1 << 20); }},
    {"occupancy.blocks.bad", kContext,
     [](Answer& out) {
       int blocks = 0;
       out("zero", CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, Kernel("empty"), 0, 0));
       out("negative",
           CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, Kernel("empty"), -1, 0));
       out("5000",
           CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, Kernel("empty"), 5000, 0));
       out("blocks", blocks);
       out("null",
           CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, nullptr, Kernel("empty"), 32, 0));
       out("null-function",
           CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, nullptr, 32, 0));
       out("flags", CU(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &blocks,
                       Kernel("empty"), 32, 0, 8U));
     }},
    {"occupancy.block-size", kContext,
     [](Answer& out) {
       int grid = 0;
       int block = 0;
       out("result",
           CU(cuOccupancyMaxPotentialBlockSize, &grid, &block, Kernel("empty"), nullptr, 0, 0));
       out("grid", grid);
       out("block", block);
       out("limited",
           CU(cuOccupancyMaxPotentialBlockSize, &grid, &block, Kernel("empty"), nullptr, 0, 100));
       out("grid", grid);
       out("block", block);
     }},
    {"occupancy.available-shared", kContext,
     [](Answer& out) {
       size_t bytes = 77;
       out("result", CU(cuOccupancyAvailableDynamicSMemPerBlock, &bytes, Kernel("empty"), 2, 128));
       out("bytes", bytes);
     }},
    {"occupancy.clusters", kContext,
     [](Answer& out) {
       CUlaunchConfig config = Config(64);
       int size = 77;
       out("size", CU(cuOccupancyMaxPotentialClusterSize, &size, Kernel("empty"), &config));
       out("value", size);
       CUlaunchAttribute attribute{};
       attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
       attribute.value = Cluster(2);
       config.attrs = &attribute;
       config.numAttrs = 1;
       int count = 77;
       out("active", CU(cuOccupancyMaxActiveClusters, &count, Kernel("empty"), &config));
       out("positive", count > 0);
     }},
};

}  // namespace

std::span<const Case> LaunchCases() { return kCases; }

}  // namespace krux::sim::conformance
