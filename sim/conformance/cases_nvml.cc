// NVML: start, identity, handles, versions, errors.
#include <cstring>
#include <string>

#include "sim/conformance/families.h"
#include "sim/conformance/nvml_call.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

// A call that fills one unsigned value.
void Value(Answer& out, const char* name) {
  unsigned value = 0;
  const int result = CallNvml(name, NvmlFirstDevice(), &value);
  out("result", NvmlName(result));
  if (result == 0) out("value", value);
}
void Result(Answer& out, const char* name) {
  unsigned long long room[64] = {};
  out("result", NvmlName(CallNvml(name, NvmlFirstDevice(), &room)));
}
void Text(Answer& out, const char* name, unsigned length) {
  char text[256] = {};
  out("result", NvmlName(CallNvml(name, NvmlFirstDevice(), text, length)));
  out("length", std::strlen(text));
}

const Case kCases[] = {
    {"nvml.before-init", kNothing,
     [](Answer& out) {
       unsigned count = 0;
       NvmlDevice device = nullptr;
       char text[96] = {};
       out("count", NvmlName(CallNvml("nvmlDeviceGetCount_v2", &count)));
       out("count-null", NvmlName(CallNvml("nvmlDeviceGetCount_v2", nullptr)));
       out("handle", NvmlName(CallNvml("nvmlDeviceGetHandleByIndex_v2", 0U, &device)));
       out("driver", NvmlName(CallNvml("nvmlSystemGetDriverVersion", text, 96U)));
       out("nvml", NvmlName(CallNvml("nvmlSystemGetNVMLVersion", text, 96U)));
       int cuda = 0;
       out("cuda", NvmlName(CallNvml("nvmlSystemGetCudaDriverVersion", &cuda)));
       out("shutdown", NvmlName(CallNvml("nvmlShutdown")));
     },
     kAlone},
    {"nvml.init.twice", kNothing,
     [](Answer& out) {
       unsigned count = 0;
       out("first", NvmlName(CallNvml("nvmlInit_v2")));
       out("second", NvmlName(CallNvml("nvmlInit_v2")));
       out("shutdown", NvmlName(CallNvml("nvmlShutdown")));
       out("still", NvmlName(CallNvml("nvmlDeviceGetCount_v2", &count)));
       out("shutdown", NvmlName(CallNvml("nvmlShutdown")));
       out("gone", NvmlName(CallNvml("nvmlDeviceGetCount_v2", &count)));
       out("shutdown", NvmlName(CallNvml("nvmlShutdown")));
       out("again", NvmlName(CallNvml("nvmlInit_v2")));
     },
     kAlone},
    {"nvml.init.flags", kNothing,
     [](Answer& out) {
       out("0", NvmlName(CallNvml("nvmlInitWithFlags", 0U)));
       out("no-gpus", NvmlName(CallNvml("nvmlInitWithFlags", 1U)));
       out("no-attach", NvmlName(CallNvml("nvmlInitWithFlags", 2U)));
       out("bad", NvmlName(CallNvml("nvmlInitWithFlags", 0x100U)));
     },
     kAlone},
    {"nvml.error-strings", kNothing,
     [](Answer& out) {
       auto* text = reinterpret_cast<const char* (*)(int)>(NvmlSymbol("nvmlErrorString"));
       if (text == nullptr) return out("text", "MISSING");
       for (int number = 0; number <= 30; ++number) out(std::to_string(number), text(number));
       out("999", text(999));
       out("500", text(500));
     }},
    {"nvml.system.texts", kNvml,
     [](Answer& out) {
       char text[96] = {};
       out("driver", NvmlName(CallNvml("nvmlSystemGetDriverVersion", text, 96U)));
       out("driver-short", NvmlName(CallNvml("nvmlSystemGetDriverVersion", text, 3U)));
       out("driver-null", NvmlName(CallNvml("nvmlSystemGetDriverVersion", nullptr, 96U)));
       out("nvml", NvmlName(CallNvml("nvmlSystemGetNVMLVersion", text, 96U)));
       out("nvml-short", NvmlName(CallNvml("nvmlSystemGetNVMLVersion", text, 3U)));
     }},
    {"nvml.system.cuda", kNvml,
     [](Answer& out) {
       int version = 0;
       out("v1", NvmlName(CallNvml("nvmlSystemGetCudaDriverVersion", &version)));
       out("version", version);
       out("v2", NvmlName(CallNvml("nvmlSystemGetCudaDriverVersion_v2", &version)));
       out("null", NvmlName(CallNvml("nvmlSystemGetCudaDriverVersion", nullptr)));
     }},
    {"nvml.system.process-name", kNvml,
     [](Answer& out) {
       char text[256] = {};
       out("own", NvmlName(CallNvml("nvmlSystemGetProcessName", static_cast<unsigned>(getpid()),
                                    text, 256U)));
       out("set", text[0] != '\0');
       out("none", NvmlName(CallNvml("nvmlSystemGetProcessName", 0x7ffffffeU, text, 256U)));
       out("short", NvmlName(CallNvml("nvmlSystemGetProcessName", static_cast<unsigned>(getpid()),
                                      text, 2U)));
     }},
    {"nvml.handle.index", kNvml,
     [](Answer& out) {
       NvmlDevice device = nullptr;
       out("first", NvmlName(CallNvml("nvmlDeviceGetHandleByIndex_v2", 0U, &device)));
       out("set", device != nullptr);
       out("large", NvmlName(CallNvml("nvmlDeviceGetHandleByIndex_v2", 1000U, &device)));
       out("null", NvmlName(CallNvml("nvmlDeviceGetHandleByIndex_v2", 0U, nullptr)));
     }},
    {"nvml.handle.uuid", kNvml,
     [](Answer& out) {
       char uuid[96] = {};
       NvmlDevice device = nullptr;
       out("uuid", NvmlName(CallNvml("nvmlDeviceGetUUID", NvmlFirstDevice(), uuid, 96U)));
       out("length", std::strlen(uuid));
       out("prefix", std::string(uuid, 4));
       out("back", NvmlName(CallNvml("nvmlDeviceGetHandleByUUID", uuid, &device)));
       out("same", device == NvmlFirstDevice());
       out("unknown", NvmlName(CallNvml("nvmlDeviceGetHandleByUUID",
                                        "GPU-00000000-0000-0000-0000-000000000000", &device)));
       out("nonsense", NvmlName(CallNvml("nvmlDeviceGetHandleByUUID", "x", &device)));
       out("null", NvmlName(CallNvml("nvmlDeviceGetHandleByUUID", nullptr, &device)));
     }},
    {"nvml.handle.pci", kNvml,
     [](Answer& out) {
       struct {
         char legacy[16];
         unsigned domain, bus, device, id, subsystem;
         char text[32];
       } pci{};
       NvmlDevice device = nullptr;
       out("get", NvmlName(CallNvml("nvmlDeviceGetPciInfo_v3", NvmlFirstDevice(), &pci)));
       out("id", pci.id);
       out("subsystem", pci.subsystem);
       out("lengths",
           std::to_string(std::strlen(pci.legacy)) + "," + std::to_string(std::strlen(pci.text)));
       out("back", NvmlName(CallNvml("nvmlDeviceGetHandleByPciBusId_v2", pci.text, &device)));
       out("same", device == NvmlFirstDevice());
       out("legacy", NvmlName(CallNvml("nvmlDeviceGetHandleByPciBusId_v2", pci.legacy, &device)));
       out("none", NvmlName(CallNvml("nvmlDeviceGetHandleByPciBusId_v2", "0000:ff:1f.0", &device)));
       out("nonsense", NvmlName(CallNvml("nvmlDeviceGetHandleByPciBusId_v2", "x", &device)));
     }},
    {"nvml.handle.null", kNvml,
     [](Answer& out) {
       NvmlMemory memory{};
       unsigned value = 0;
       NvmlDevice none = nullptr;
       out("memory", NvmlName(CallNvml("nvmlDeviceGetMemoryInfo", none, &memory)));
       out("index", NvmlName(CallNvml("nvmlDeviceGetIndex", none, &value)));
     }},
    {"nvml.handle.junk", kNvml,
     [](Answer& out) {
       unsigned value = 0;
       auto* junk = reinterpret_cast<NvmlDevice>(0x1234);
       out("index", NvmlName(CallNvml("nvmlDeviceGetIndex", junk, &value)));
     },
     kAlone},
    {"nvml.identity.name", kNvml,
     [](Answer& out) {
       char name[96] = {};
       out("result", NvmlName(CallNvml("nvmlDeviceGetName", NvmlFirstDevice(), name, 96U)));
       out("name", name);
       out("short", NvmlName(CallNvml("nvmlDeviceGetName", NvmlFirstDevice(), name, 4U)));
       out("null", NvmlName(CallNvml("nvmlDeviceGetName", NvmlFirstDevice(), nullptr, 96U)));
     }},
    {"nvml.identity.uuid-short", kNvml, [](Answer& out) { Text(out, "nvmlDeviceGetUUID", 10); }},
    {"nvml.identity.index", kNvml, [](Answer& out) { Value(out, "nvmlDeviceGetIndex"); }},
    {"nvml.identity.brand", kNvml, [](Answer& out) { Value(out, "nvmlDeviceGetBrand"); }},
    {"nvml.identity.architecture", kNvml,
     [](Answer& out) { Value(out, "nvmlDeviceGetArchitecture"); }},
    {"nvml.identity.minor", kNvml, [](Answer& out) { Result(out, "nvmlDeviceGetMinorNumber"); }},
    {"nvml.identity.serial", kNvml, [](Answer& out) { Text(out, "nvmlDeviceGetSerial", 96); }},
    {"nvml.identity.board-id", kNvml, [](Answer& out) { Result(out, "nvmlDeviceGetBoardId"); }},
    {"nvml.identity.vbios", kNvml, [](Answer& out) { Text(out, "nvmlDeviceGetVbiosVersion", 96); }},
    {"nvml.identity.capability", kNvml,
     [](Answer& out) {
       int major = 0;
       int minor = 0;
       out("result", NvmlName(CallNvml("nvmlDeviceGetCudaComputeCapability", NvmlFirstDevice(),
                                       &major, &minor)));
       out("major", major);
       out("minor", minor);
     }},
    {"nvml.identity.cores", kNvml, [](Answer& out) { Value(out, "nvmlDeviceGetNumGpuCores"); }},
    {"nvml.identity.bus-width", kNvml,
     [](Answer& out) { Value(out, "nvmlDeviceGetMemoryBusWidth"); }},
    {"nvml.identity.attributes", kNvml,
     [](Answer& out) { Result(out, "nvmlDeviceGetAttributes_v2"); }},
    {"nvml.mode.persistence", kNvml,
     [](Answer& out) { Result(out, "nvmlDeviceGetPersistenceMode"); }},
    {"nvml.mode.compute", kNvml, [](Answer& out) { Value(out, "nvmlDeviceGetComputeMode"); }},
    {"nvml.mode.display", kNvml, [](Answer& out) { Value(out, "nvmlDeviceGetDisplayMode"); }},
    {"nvml.mode.display-active", kNvml,
     [](Answer& out) { Value(out, "nvmlDeviceGetDisplayActive"); }},
    {"nvml.mode.mig", kNvml,
     [](Answer& out) {
       unsigned current = 77;
       unsigned pending = 77;
       out("result",
           NvmlName(CallNvml("nvmlDeviceGetMigMode", NvmlFirstDevice(), &current, &pending)));
       out("current", current);
       out("pending", pending);
       unsigned count = 77;
       out("max", NvmlName(CallNvml("nvmlDeviceGetMaxMigDeviceCount", NvmlFirstDevice(), &count)));
       out("count", count);
       NvmlDevice device = nullptr;
       out("handle", NvmlName(CallNvml("nvmlDeviceGetMigDeviceHandleByIndex", NvmlFirstDevice(), 0U,
                                       &device)));
       unsigned is_mig = 77;
       out("is-mig", NvmlName(CallNvml("nvmlDeviceIsMigDeviceHandle", NvmlFirstDevice(), &is_mig)));
       out("value", is_mig);
     }},
    {"nvml.mode.ecc", kNvml,
     [](Answer& out) {
       unsigned current = 77;
       unsigned pending = 77;
       out("result",
           NvmlName(CallNvml("nvmlDeviceGetEccMode", NvmlFirstDevice(), &current, &pending)));
       out("current", current);
     }},
    {"nvml.mode.virtualization", kNvml,
     [](Answer& out) { Result(out, "nvmlDeviceGetVirtualizationMode"); }},
    {"nvml.mode.confidential", kNvml,
     [](Answer& out) { Result(out, "nvmlSystemGetConfComputeState"); }},
    {"nvml.pci.generation", kNvml,
     [](Answer& out) { Result(out, "nvmlDeviceGetMaxPcieLinkGeneration"); }},
    {"nvml.pci.width", kNvml, [](Answer& out) { Result(out, "nvmlDeviceGetMaxPcieLinkWidth"); }},
    {"nvml.topology.numa", kNvml, [](Answer& out) { Result(out, "nvmlDeviceGetNumaNodeId"); }},
    {"nvml.topology.self", kNvml,
     [](Answer& out) {
       unsigned level = 77;
       NvmlDevice device = NvmlFirstDevice();
       out("result",
           NvmlName(CallNvml("nvmlDeviceGetTopologyCommonAncestor", device, device, &level)));
     }},
    {"nvml.topology.affinity", kNvml,
     [](Answer& out) {
       unsigned long mask[16] = {};
       out("result", NvmlName(CallNvml("nvmlDeviceGetCpuAffinity", NvmlFirstDevice(), 16U, mask)));
       out("zero", NvmlName(CallNvml("nvmlDeviceGetCpuAffinity", NvmlFirstDevice(), 0U, mask)));
     }},
    {"nvml.nvlink.state", kNvml,
     [](Answer& out) {
       for (const unsigned link : {0U, 17U, 18U, 100U}) {
         unsigned active = 77;
         out(std::to_string(link),
             NvmlName(CallNvml("nvmlDeviceGetNvLinkState", NvmlFirstDevice(), link, &active)));
       }
     }},
    {"nvml.exports", kNothing,
     [](Answer& out) {
       for (const char* name :
            {"nvmlInit", "nvmlInit_v2", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex",
             "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2",
             "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMemoryInfo_v2",
             "nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2", "nvmlInternalGetExportTable",
             "nvmlDeviceGetProcessesUtilizationInfo", "nvmlDeviceGetCapabilities",
             "nvmlSystemGetTopologyGpuSet", "nvmlNoSuchCall"}) {
         out(name, NvmlSymbol(name) != nullptr);
       }
     }},
};

}  // namespace

std::span<const Case> NvmlCases() { return kCases; }

}  // namespace krux::sim::conformance
