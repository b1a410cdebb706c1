// Devices: count, names, attributes, properties of peers.
#include <cstring>
#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

// Attributes `from` to `to`; those that a card in another slot, host or setting would answer
// otherwise (PCI place, NUMA node, host settings) are left out.
void Attributes(Answer& out, int from, int to) {
  for (int attribute = from; attribute <= to; ++attribute) {
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ||
        attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID ||
        attribute == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID ||
        attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) {
      continue;
    }
    int value = -77;
    const CUresult result =
        CU(cuDeviceGetAttribute, &value, static_cast<CUdevice_attribute>(attribute), 0);
    out(std::to_string(attribute),
        result == CUDA_SUCCESS ? std::to_string(value) : Answer::ResultName(result));
  }
}

const Case kCases[] = {
    {"device.count.null", kInit, [](Answer& out) { out(CU(cuDeviceGetCount, nullptr)); }},
    {"device.get.ok", kInit,
     [](Answer& out) {
       CUdevice device = 77;
       out("result", CU(cuDeviceGet, &device, 0));
       out("device", device);
     }},
    {"device.get.negative", kInit,
     [](Answer& out) {
       CUdevice device = 77;
       out("result", CU(cuDeviceGet, &device, -1));
       out("device", device);
     }},
    {"device.get.too-large", kInit,
     [](Answer& out) {
       CUdevice device = 77;
       out(CU(cuDeviceGet, &device, 1000));
     }},
    {"device.get.null", kInit, [](Answer& out) { out(CU(cuDeviceGet, nullptr, 0)); }},
    {"device.get.null-and-bad", kInit, [](Answer& out) { out(CU(cuDeviceGet, nullptr, 1000)); }},
    {"device.name", kInit,
     [](Answer& out) {
       char name[128] = {};
       out("result", CU(cuDeviceGetName, name, 128, 0));
       out("name", name);
     }},
    {"device.name.short", kInit,
     [](Answer& out) {
       char name[16] = {};
       out("result", CU(cuDeviceGetName, name, 8, 0));
       out("name", name);
     }},
    {"device.name.zero-length", kInit,
     [](Answer& out) {
       char name[16] = "kept";
       out("result", CU(cuDeviceGetName, name, 0, 0));
       out("name", name);
     }},
    {"device.name.negative-length", kInit,
     [](Answer& out) {
       char name[16] = "kept";
       out("result", CU(cuDeviceGetName, name, -1, 0));
       out("name", name);
     }},
    {"device.name.null", kInit, [](Answer& out) { out(CU(cuDeviceGetName, nullptr, 16, 0)); }},
    {"device.name.bad-device", kInit,
     [](Answer& out) {
       char name[16] = {};
       out(CU(cuDeviceGetName, name, 16, 1000));
     }},
    {"device.uuid", kInit,
     [](Answer& out) {
       CUuuid uuid{};
       CUuuid zero{};
       out("result", CU(cuDeviceGetUuid, &uuid, 0));
       out("is-zero", std::memcmp(&uuid, &zero, sizeof uuid) == 0);
       out("null", CU(cuDeviceGetUuid, nullptr, 0));
       out("bad", CU(cuDeviceGetUuid, &uuid, 1000));
     }},
    {"device.luid", kInit,
     [](Answer& out) {
       char luid[16] = {};
       unsigned mask = 0;
       out(CU(cuDeviceGetLuid, luid, &mask, 0));
     }},
    {"device.total-memory", kInit,
     [](Answer& out) {
       size_t bytes = 0;
       out("result", CU(cuDeviceTotalMem, &bytes, 0));
       out("bytes", bytes);
       out("null", CU(cuDeviceTotalMem, nullptr, 0));
       out("bad", CU(cuDeviceTotalMem, &bytes, 1000));
     }},
    {"device.capability", kInit,
     [](Answer& out) {
       int major = 0;
       int minor = 0;
       out("result", CU(cuDeviceComputeCapability, &major, &minor, 0));
       out("major", major);
       out("minor", minor);
       out("null", CU(cuDeviceComputeCapability, nullptr, &minor, 0));
     }},
    {"device.properties", kInit,
     [](Answer& out) {
       CUdevprop properties{};
       out("result", CU(cuDeviceGetProperties, &properties, 0));
       out("threads", properties.maxThreadsPerBlock);
       out("grid-x", properties.maxGridSize[0]);
       out("shared", properties.sharedMemPerBlock);
       out("constant", properties.totalConstantMemory);
       out("warp", properties.SIMDWidth);
       out("pitch", properties.memPitch);
       out("registers", properties.regsPerBlock);
       out("clock", properties.clockRate);
       out("texture-align", properties.textureAlign);
     }},
    {"device.attributes.1-40", kInit, [](Answer& out) { Attributes(out, 1, 40); }},
    {"device.attributes.41-80", kInit, [](Answer& out) { Attributes(out, 41, 80); }},
    {"device.attributes.81-110", kInit, [](Answer& out) { Attributes(out, 81, 110); }},
    {"device.attributes.111-150", kInit, [](Answer& out) { Attributes(out, 111, 150); }},
    {"device.attributes.bad", kInit,
     [](Answer& out) {
       int value = 0;
       out("zero", CU(cuDeviceGetAttribute, &value, Odd<CUdevice_attribute>(0), 0));
       out("large", CU(cuDeviceGetAttribute, &value, Odd<CUdevice_attribute>(5000), 0));
       out("null", CU(cuDeviceGetAttribute, nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
       out("device", CU(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1000));
     }},
    {"device.pci.text", kInit,
     [](Answer& out) {
       char text[32] = {};
       out("result", CU(cuDeviceGetPCIBusId, text, 32, 0));
       out("length", std::strlen(text));
       CUdevice device = 77;
       out("back", CU(cuDeviceGetByPCIBusId, &device, text));
       out("device", device);
     }},
    {"device.pci.short", kInit,
     [](Answer& out) {
       char text[32] = {};
       out("result", CU(cuDeviceGetPCIBusId, text, 5, 0));
       out("length", std::strlen(text));
       out("null", CU(cuDeviceGetPCIBusId, nullptr, 32, 0));
     }},
    {"device.pci.by-bad-text", kInit,
     [](Answer& out) {
       CUdevice device = 77;
       out("nonsense", CU(cuDeviceGetByPCIBusId, &device, "nonsense"));
       out("none", CU(cuDeviceGetByPCIBusId, &device, "ffff:ff:1f.0"));
       out("null", CU(cuDeviceGetByPCIBusId, &device, nullptr));
       out("null-out", CU(cuDeviceGetByPCIBusId, nullptr, "0000:00:00.0"));
     }},
    {"device.peer.self", kInit,
     [](Answer& out) {
       int can = 77;
       out("result", CU(cuDeviceCanAccessPeer, &can, 0, 0));
       out("can", can);
       out("bad", CU(cuDeviceCanAccessPeer, &can, 0, 1000));
       out("null", CU(cuDeviceCanAccessPeer, nullptr, 0, 0));
     }},
    {"device.peer.attribute-self", kInit,
     [](Answer& out) {
       int value = 77;
       out(CU(cuDeviceGetP2PAttribute, &value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
     }},
    {"device.affinity", kInit,
     [](Answer& out) {
       int value = 77;
       out("result", CU(cuDeviceGetExecAffinitySupport, &value, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
       out("value", value);
     }},
    {"device.pool.default", kInit,
     [](Answer& out) {
       CUmemoryPool standard = nullptr;
       CUmemoryPool current = nullptr;
       out("default", CU(cuDeviceGetDefaultMemPool, &standard, 0));
       out("current", CU(cuDeviceGetMemPool, &current, 0));
       out("same", standard == current);
       out("null", CU(cuDeviceGetDefaultMemPool, nullptr, 0));
       out("bad", CU(cuDeviceGetDefaultMemPool, &standard, 1000));
       out("set-null", CU(cuDeviceSetMemPool, 0, nullptr));
     }},
    {"device.graph-memory", kInit,
     [](Answer& out) {
       cuuint64_t value = 77;
       out("used", CU(cuDeviceGetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value));
       out("value", value);
       out("null",
           CU(cuDeviceGetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, nullptr));
       out("set-current",
           CU(cuDeviceSetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value));
       value = 0;
       out("set-high",
           CU(cuDeviceSetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
       value = 5;
       out("set-high-5",
           CU(cuDeviceSetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
       out("trim", CU(cuDeviceGraphMemTrim, 0));
       out("trim-bad", CU(cuDeviceGraphMemTrim, 1000));
     }},
    {"device.texture-width", kInit,
     [](Answer& out) {
       size_t width = 0;
       out("result", CU(cuDeviceGetTexture1DLinearMaxWidth, &width, CU_AD_FORMAT_FLOAT, 1U, 0));
       out("width", width);
     }},
};

}  // namespace

std::span<const Case> DeviceCases() { return kCases; }

}  // namespace krux::sim::conformance
