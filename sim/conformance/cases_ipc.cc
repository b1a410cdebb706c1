// Memory and events that other processes open.
#include <cstring>
#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

const Case kCases[] = {
    {"ipc.memory.get", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       CUipcMemHandle handle{};
       CUipcMemHandle inside{};
       out("get", CU(cuIpcGetMemHandle, &handle, pointer));
       out("again", CU(cuIpcGetMemHandle, &inside, pointer));
       out("same", std::memcmp(&handle, &inside, sizeof handle) == 0);
       out("inside", CU(cuIpcGetMemHandle, &inside, pointer + 8));
       out("null", CU(cuIpcGetMemHandle, nullptr, pointer));
       CU(cuMemFree, pointer);
     }},
    {"ipc.memory.get-bad", kContext,
     [](Answer& out) {
       CUipcMemHandle handle{};
       out("zero", CU(cuIpcGetMemHandle, &handle, 0));
       out("junk", CU(cuIpcGetMemHandle, &handle, 0x1234));
       CUdeviceptr pointer = 0;
       CU(cuMemAllocManaged, &pointer, 4096, unsigned{CU_MEM_ATTACH_GLOBAL});
       out("managed", CU(cuIpcGetMemHandle, &handle, pointer));
       CU(cuMemFree, pointer);
       CU(cuMemAllocAsync, &pointer, 4096, nullptr);
       out("pool", CU(cuIpcGetMemHandle, &handle, pointer));
       CU(cuMemFreeAsync, pointer, nullptr);
     }},
    {"ipc.memory.open-own", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       CUipcMemHandle handle{};
       CU(cuIpcGetMemHandle, &handle, pointer);
       CUdeviceptr opened = 0;
       out("open",
           CU(cuIpcOpenMemHandle, &opened, handle, unsigned{CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS}));
       CU(cuMemFree, pointer);
     },
     kOwnProcess},
    {"ipc.memory.open-bad", kContext,
     [](Answer& out) {
       CUipcMemHandle handle{};
       CUdeviceptr opened = 0;
       out("zeros",
           CU(cuIpcOpenMemHandle, &opened, handle, unsigned{CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS}));
       out("flags", CU(cuIpcOpenMemHandle, &opened, handle, 0U));
       out("null",
           CU(cuIpcOpenMemHandle, nullptr, handle, unsigned{CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS}));
     },
     kOwnProcess},
    {"ipc.memory.close-bad", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       out("own", CU(cuIpcCloseMemHandle, pointer));
       out("zero", CU(cuIpcCloseMemHandle, 0));
       CU(cuMemFree, pointer);
     }},
    {"ipc.memory.other-process", kContext,
     [](Answer& out) { out("helper", RunHelper("ipc-memory")); }, kAlone},
    {"ipc.event.get", kContext,
     [](Answer& out) {
       CUevent event = nullptr;
       CUipcEventHandle handle{};
       CU(cuEventCreate, &event, unsigned{CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING});
       out("get", CU(cuIpcGetEventHandle, &handle, event));
       out("null", CU(cuIpcGetEventHandle, nullptr, event));
       CU(cuEventDestroy, event);
       CU(cuEventCreate, &event, 0U);
       out("plain", CU(cuIpcGetEventHandle, &handle, event));
       CU(cuEventDestroy, event);
     }},
    {"ipc.event.open-bad", kContext,
     [](Answer& out) {
       CUevent event = nullptr;
       CUipcEventHandle handle{};
       out("zeros", CU(cuIpcOpenEventHandle, &event, handle));
     },
     kOwnProcess},
    {"ipc.event.timing", kContext,
     [](Answer& out) {
       CUevent event = nullptr;
       out(CU(cuEventCreate, &event, unsigned{CU_EVENT_INTERPROCESS}));
     }},
    {"ipc.virtual.other-process", kContext,
     [](Answer& out) { out("helper", RunHelper("virtual-export")); }, kAlone},
};

}  // namespace

std::span<const Case> IpcCases() { return kCases; }

}  // namespace krux::sim::conformance
