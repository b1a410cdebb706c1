// NVML: memory, processes, utilisation, sensors, events.
#include <string>
#include <vector>

#include "sim/conformance/families.h"
#include "sim/conformance/nvml_call.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

// A call that fills something whose value is not the same twice.
void Result(Answer& out, const char* name) {
  unsigned long long room[64] = {};
  out("result", NvmlName(CallNvml(name, NvmlFirstDevice(), &room)));
}
// (device, which, &value): the results for the values of `which` up to `last`.
void Indexed(Answer& out, const char* name, unsigned last, bool with_value) {
  for (unsigned which = 0; which <= last; ++which) {
    unsigned value = 0;
    const int result = CallNvml(name, NvmlFirstDevice(), which, &value);
    out(std::to_string(which),
        result == 0 && with_value ? std::to_string(value) : NvmlName(result));
  }
}
void Processes(Answer& out, const char* name, unsigned room) {
  std::vector<NvmlProcess> processes(64);
  unsigned count = room;
  out("result",
      NvmlName(CallNvml(name, NvmlFirstDevice(), &count, room == 0 ? nullptr : processes.data())));
  out("count", count);
}
void MemoryV2(Answer& out, unsigned version) {
  NvmlMemoryV2 memory{};
  memory.version = version;
  const int result = CallNvml("nvmlDeviceGetMemoryInfo_v2", NvmlFirstDevice(), &memory);
  out("result", NvmlName(result));
  if (result == 0) out("total", memory.total);
}

const Case kCases[] = {
    {"nvml.memory.v1", kNvml,
     [](Answer& out) {
       NvmlMemory memory{};
       out("result", NvmlName(CallNvml("nvmlDeviceGetMemoryInfo", NvmlFirstDevice(), &memory)));
       out("total", memory.total);
       out("sums-up", memory.free + memory.used == memory.total);
       out("null", NvmlName(CallNvml("nvmlDeviceGetMemoryInfo", NvmlFirstDevice(), nullptr)));
     }},
    {"nvml.memory.v2", kNvml,
     [](Answer& out) {
       NvmlMemoryV2 memory{};
       memory.version = NvmlVersion(sizeof memory, 2);
       out("result", NvmlName(CallNvml("nvmlDeviceGetMemoryInfo_v2", NvmlFirstDevice(), &memory)));
       out("total", memory.total);
       out("reserved-mib", memory.reserved >> 20);
       out("sums-up", memory.free + memory.used + memory.reserved == memory.total);
     }},
    {"nvml.memory.v2-no-version", kNvml, [](Answer& out) { MemoryV2(out, 0); }},
    {"nvml.memory.v2-version-1", kNvml,
     [](Answer& out) { MemoryV2(out, NvmlVersion(sizeof(NvmlMemoryV2), 1)); }},
    {"nvml.memory.v2-version-3", kNvml,
     [](Answer& out) { MemoryV2(out, NvmlVersion(sizeof(NvmlMemoryV2), 3)); }},
    {"nvml.memory.idle", kNvml,
     [](Answer& out) {
       NvmlMemory memory{};
       CallNvml("nvmlDeviceGetMemoryInfo", NvmlFirstDevice(), &memory);
       out("used-below-1-gib", memory.used < (1ULL << 30));
     },
     kAlone},
    {"nvml.memory.against-cuda", kBoth,
     [](Answer& out) {
       NvmlMemory memory{};
       CallNvml("nvmlDeviceGetMemoryInfo", NvmlFirstDevice(), &memory);
       size_t free = 0;
       size_t total = 0;
       CU(cuMemGetInfo, &free, &total);
       out("nvml-total-mib", memory.total >> 20);
       out("cuda-total-mib", total >> 20);
       out("free-difference-mib",
           Mib(static_cast<long long>(memory.free) - static_cast<long long>(free)));
     },
     kAlone},
    {"nvml.memory.bar1", kNvml,
     [](Answer& out) {
       struct {
         unsigned long long total, free, used;
       } memory{};
       out("result", NvmlName(CallNvml("nvmlDeviceGetBAR1MemoryInfo", NvmlFirstDevice(), &memory)));
       out("sums-up", memory.free + memory.used == memory.total);
     }},
    {"nvml.processes.none", kNvml,
     [](Answer& out) { Processes(out, "nvmlDeviceGetComputeRunningProcesses_v3", 64); }, kAlone},
    {"nvml.processes.room-0", kBoth,
     [](Answer& out) { Processes(out, "nvmlDeviceGetComputeRunningProcesses_v3", 0); }, kAlone},
    {"nvml.processes.one", kBoth,
     [](Answer& out) {
       Processes(out, "nvmlDeviceGetComputeRunningProcesses_v3", 64);
       out("listed", NvmlUsedBy(getpid()) >= 0);
     },
     kAlone},
    {"nvml.processes.after-init-only", kInit,
     [](Answer& out) {
       CallNvml("nvmlInit_v2");
       out("listed", NvmlUsedBy(getpid()) >= 0);
     },
     kAlone},
    {"nvml.processes.instances", kBoth,
     [](Answer& out) {
       std::vector<NvmlProcess> processes(64);
       unsigned count = 64;
       CallNvml("nvmlDeviceGetComputeRunningProcesses_v3", NvmlFirstDevice(), &count,
                processes.data());
       out("gpu-instance", processes[0].gpu_instance);
       out("compute-instance", processes[0].compute_instance);
     },
     kAlone},
    {"nvml.processes.graphics", kBoth,
     [](Answer& out) { Processes(out, "nvmlDeviceGetGraphicsRunningProcesses_v3", 64); }, kAlone},
    {"nvml.processes.mps", kBoth,
     [](Answer& out) { Processes(out, "nvmlDeviceGetMPSComputeRunningProcesses_v3", 64); }, kAlone},
    {"nvml.processes.null", kNvml,
     [](Answer& out) {
       NvmlProcess* none = nullptr;
       unsigned* no_count = nullptr;
       unsigned count = 5;
       out("count", NvmlName(CallNvml("nvmlDeviceGetComputeRunningProcesses_v3", NvmlFirstDevice(),
                                      no_count, none)));
       out("list", NvmlName(CallNvml("nvmlDeviceGetComputeRunningProcesses_v3", NvmlFirstDevice(),
                                     &count, none)));
     },
     kAlone},
    {"nvml.processes.name", kBoth,
     [](Answer& out) {
       char text[256] = {};
       out("result", NvmlName(CallNvml("nvmlSystemGetProcessName", static_cast<unsigned>(getpid()),
                                       text, 256U)));
     },
     kAlone},
    {"nvml.utilization.rates", kNvml,
     [](Answer& out) { Result(out, "nvmlDeviceGetUtilizationRates"); }},
    {"nvml.utilization.processes-room-0", kNvml,
     [](Answer& out) {
       unsigned count = 0;
       void* none = nullptr;
       out("result", NvmlName(CallNvml("nvmlDeviceGetProcessUtilization", NvmlFirstDevice(), none,
                                       &count, 0ULL)));
       out("count", count);
     }},
    {"nvml.utilization.encoder", kNvml,
     [](Answer& out) {
       unsigned value = 0;
       unsigned period = 0;
       out("encoder", NvmlName(CallNvml("nvmlDeviceGetEncoderUtilization", NvmlFirstDevice(),
                                        &value, &period)));
       out("decoder", NvmlName(CallNvml("nvmlDeviceGetDecoderUtilization", NvmlFirstDevice(),
                                        &value, &period)));
     }},
    {"nvml.accounting.mode", kNvml,
     [](Answer& out) { Result(out, "nvmlDeviceGetAccountingMode"); }},
    {"nvml.clock.now", kNvml,
     [](Answer& out) { Indexed(out, "nvmlDeviceGetClockInfo", 5, false); }},
    {"nvml.clock.maximum", kNvml,
     [](Answer& out) { Indexed(out, "nvmlDeviceGetMaxClockInfo", 4, true); }},
    {"nvml.clock.application", kNvml,
     [](Answer& out) { Indexed(out, "nvmlDeviceGetDefaultApplicationsClock", 4, true); }},
    {"nvml.clock.reasons", kNvml,
     [](Answer& out) { Result(out, "nvmlDeviceGetCurrentClocksEventReasons"); }},
    {"nvml.clock.state", kNvml, [](Answer& out) { Result(out, "nvmlDeviceGetPerformanceState"); }},
    {"nvml.power.usage", kNvml, [](Answer& out) { Result(out, "nvmlDeviceGetPowerUsage"); }},
    {"nvml.power.limit", kNvml,
     [](Answer& out) { Result(out, "nvmlDeviceGetPowerManagementLimit"); }},
    {"nvml.power.default-limit", kNvml,
     [](Answer& out) {
       unsigned value = 0;
       out("result", NvmlName(CallNvml("nvmlDeviceGetPowerManagementDefaultLimit",
                                       NvmlFirstDevice(), &value)));
       out("milliwatt", value);
     }},
    {"nvml.power.constraints", kNvml,
     [](Answer& out) {
       unsigned least = 0;
       unsigned most = 0;
       out("result", NvmlName(CallNvml("nvmlDeviceGetPowerManagementLimitConstraints",
                                       NvmlFirstDevice(), &least, &most)));
       out("least", least);
       out("most", most);
     }},
    {"nvml.power.energy", kNvml,
     [](Answer& out) { Result(out, "nvmlDeviceGetTotalEnergyConsumption"); }},
    {"nvml.fan", kNvml,
     [](Answer& out) {
       Result(out, "nvmlDeviceGetFanSpeed");
       Result(out, "nvmlDeviceGetNumFans");
     }},
    {"nvml.temperature", kNvml,
     [](Answer& out) { Indexed(out, "nvmlDeviceGetTemperature", 2, false); }},
    {"nvml.temperature.thresholds", kNvml,
     [](Answer& out) { Indexed(out, "nvmlDeviceGetTemperatureThreshold", 4, true); }},
    {"nvml.ecc.totals", kNvml,
     [](Answer& out) {
       for (const unsigned kind : {0U, 1U, 2U}) {
         for (const unsigned counter : {0U, 1U, 2U}) {
           unsigned long long value = 77;
           out(std::to_string(kind) + "/" + std::to_string(counter),
               NvmlName(CallNvml("nvmlDeviceGetTotalEccErrors", NvmlFirstDevice(), kind, counter,
                                 &value)));
         }
       }
     }},
    {"nvml.ecc.remapped-rows", kNvml,
     [](Answer& out) {
       unsigned corrected = 77;
       unsigned uncorrected = 77;
       unsigned pending = 77;
       unsigned failed = 77;
       out("result", NvmlName(CallNvml("nvmlDeviceGetRemappedRows", NvmlFirstDevice(), &corrected,
                                       &uncorrected, &pending, &failed)));
       out("pending", pending);
       out("failed", failed);
     }},
    {"nvml.ecc.retired-pages", kNvml,
     [](Answer& out) {
       unsigned count = 0;
       void* none = nullptr;
       out("result",
           NvmlName(CallNvml("nvmlDeviceGetRetiredPages", NvmlFirstDevice(), 0U, &count, none)));
     }},
    {"nvml.event.types", kNvml,
     [](Answer& out) {
       unsigned long long types = 0;
       out("result",
           NvmlName(CallNvml("nvmlDeviceGetSupportedEventTypes", NvmlFirstDevice(), &types)));
       out("types", types);
     }},
    {"nvml.event.wait-nothing", kNvml,
     [](Answer& out) {
       void* set = nullptr;
       unsigned long long data[8] = {};
       out("create", NvmlName(CallNvml("nvmlEventSetCreate", &set)));
       out("register",
           NvmlName(CallNvml("nvmlDeviceRegisterEvents", NvmlFirstDevice(), 8ULL, set)));
       out("wait", NvmlName(CallNvml("nvmlEventSetWait_v2", set, &data, 10U)));
       out("free", NvmlName(CallNvml("nvmlEventSetFree", set)));
     }},
    {"nvml.event.bad", kNvml,
     [](Answer& out) {
       void* set = nullptr;
       void* none = nullptr;
       unsigned long long data[8] = {};
       out("create", NvmlName(CallNvml("nvmlEventSetCreate", none)));
       CallNvml("nvmlEventSetCreate", &set);
       out("unknown-type",
           NvmlName(CallNvml("nvmlDeviceRegisterEvents", NvmlFirstDevice(), 1ULL << 60, set)));
       out("no-set", NvmlName(CallNvml("nvmlDeviceRegisterEvents", NvmlFirstDevice(), 8ULL, none)));
       out("wait", NvmlName(CallNvml("nvmlEventSetWait_v2", set, none, 10U)));
       out("wait-no-set", NvmlName(CallNvml("nvmlEventSetWait_v2", none, &data, 10U)));
       CallNvml("nvmlEventSetFree", set);
     },
     kAlone},
    {"nvml.event.xid-of-bad-address", kBoth,
     [](Answer& out) {
       void* set = nullptr;
       struct {
         NvmlDevice device;
         unsigned long long type, data;
         unsigned gpu_instance, compute_instance;
       } event{};
       CallNvml("nvmlEventSetCreate", &set);
       CallNvml("nvmlDeviceRegisterEvents", NvmlFirstDevice(), 8ULL, set);
       Launch(Kernel("illegal_address"));
       out("sync", CU(cuCtxSynchronize));
       out("wait", NvmlName(CallNvml("nvmlEventSetWait_v2", set, &event, 2000U)));
       out("type", event.type);
       out("xid", event.data);
       out("device", event.device == NvmlFirstDevice());
     },
     kAlone},
    {"nvml.field-values", kNvml,
     [](Answer& out) {
       struct Field {
         unsigned id, scope;
         long long stamp, latency;
         unsigned type;
         int result;
         unsigned long long value;
       };
       std::vector<Field> fields(3);
       fields[0].id = 1;   // ECC mode
       fields[1].id = 83;  // total energy
       fields[2].id = 9999;
       out("result",
           NvmlName(CallNvml("nvmlDeviceGetFieldValues", NvmlFirstDevice(), 3, fields.data())));
       for (const Field& field : fields) out(std::to_string(field.id), NvmlName(field.result));
     }},
};

}  // namespace

std::span<const Case> NvmlUseCases() { return kCases; }

}  // namespace krux::sim::conformance
