"""Compares what clients of NVML say with what the simulated node was told, for one model of card.

usage: nvml_client.py KRUX_SIM NVIDIA_SMI MODEL      (the node's folder is $KRUX_SIM_FOLDER)

Makes the node, holds memory in two processes, and asks nvidia-ml-py, nvitop, gpustat and the vendor's
nvidia-smi ("-": without it). Prints what differs; ends with a line "ok".
"""
import ctypes
import json
import os
import subprocess
import sys

MIB = 1 << 20
# In no process's figure: what cuInit takes, and cuInit and a context.
INIT = 13 * MIB // 4
UNLISTED = INIT + 89 * MIB // 16
# name, MiB in all, watts, multiprocessors, capability, PCI device, has MIG
CARDS = {
    "H200": ("NVIDIA H200", 143771, 700, 132, (9, 0), 0x2335, True),
    "H100": ("NVIDIA H100 80GB HBM3", 81559, 700, 132, (9, 0), 0x2330, True),
    "A100": ("NVIDIA A100-SXM4-80GB", 81920, 400, 108, (8, 0), 0x20B2, True),
    "L40S": ("NVIDIA L40S", 46068, 350, 142, (8, 9), 0x26B9, False),
    "L4": ("NVIDIA L4", 23034, 72, 58, (8, 9), 0x27B8, False),
    "T4": ("Tesla T4", 15360, 70, 40, (7, 5), 0x1EB8, False),
}
HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(int(sys.argv[1]) << 20)) == 0
print("holds", flush=True)
sys.stdin.read()
"""
differences = []


def expect(what, seen, wanted):
    if seen != wanted:
        differences.append(f"{what}: {seen!r}, not {wanted!r}")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    expect(" ".join(command[-2:]) + ": exit code", done.returncode, 0)
    return done.stdout


class Holder:
    """A process that holds memory on card 0 until it is let go."""

    def __init__(self, mib):
        self.process = subprocess.Popen([sys.executable, "-c", HOLDER, str(mib)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "holds\n"

    def end(self):
        self.process.communicate()


def check_library(card, holders):
    import pynvml
    pynvml.nvmlInit()
    name, mib, watts, multiprocessors, capability, device_id, has_mig = card
    expect("count", pynvml.nvmlDeviceGetCount(), 2)
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    expect("name", pynvml.nvmlDeviceGetName(device), name)
    expect("limit", pynvml.nvmlDeviceGetEnforcedPowerLimit(device), watts * 1000)
    expect("capability", tuple(pynvml.nvmlDeviceGetCudaComputeCapability(device)), capability)
    expect("PCI device", pynvml.nvmlDeviceGetPciInfo(device).pciDeviceId, device_id << 16 | 0x10DE)
    memory = pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2)
    expect("total", memory.total, mib * MIB)
    expect("sum", memory.reserved + memory.used + memory.free, memory.total)
    used = {p.pid: p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(device)}
    expect("pids", sorted(used), sorted(h.process.pid for h in holders))
    expect("used", memory.used, sum(used.values()) + len(holders) * UNLISTED)
    by_size = sorted(used.values())
    expect("difference of the two", by_size[1] - by_size[0], 2000 * MIB)
    other = pynvml.nvmlDeviceGetHandleByIndex(1)
    expect("other is empty", pynvml.nvmlDeviceGetComputeRunningProcesses(other), [])
    try:
        mig = pynvml.nvmlDeviceGetMigMode(device)
        expect("MIG", (has_mig, mig), (True, [0, 0]))
    except pynvml.NVMLError_NotSupported:
        expect("MIG", has_mig, False)
    check_multiprocessors(multiprocessors)
    uuid = pynvml.nvmlDeviceGetUUID(device)
    pynvml.nvmlShutdown()
    return uuid, {pid: value // MIB for pid, value in used.items()}, memory.used + INIT


def check_multiprocessors(wanted):
    cuda = ctypes.CDLL("libcuda.so.1")
    value = ctypes.c_int()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDeviceGetAttribute(ctypes.byref(value), 16, 0) == 0
    expect("multiprocessors", value.value, wanted)


def check_smi(smi, card, uuid, used, in_all):
    name, mib, watts = card[:3]
    expect("nvidia-smi -L", run(smi, "-L").splitlines()[0], f"GPU 0: {name} (UUID: {uuid})")
    table = run(smi)
    expect("table: card's figures", f"{in_all // MIB}MiB / " in table, True)
    for pid, value in used.items():
        row = [line for line in table.splitlines() if f" {pid} " in line]
        expect("table: process", len(row) == 1 and f"{value}MiB" in row[0], True)
    fields = "index,uuid,name,memory.total,memory.used,power.limit,ecc.errors.corrected.volatile.total"
    row = run(smi, f"--query-gpu={fields}", "--format=csv,noheader,nounits").splitlines()[0]
    expect("--query-gpu", row.split(", "),
           ["0", uuid, name, str(mib), str(in_all // MIB), f"{watts}.00", "3"])
    rows = run(smi, "--query-compute-apps=pid,used_memory,gpu_uuid", "--format=csv,noheader,nounits")
    expect("--query-compute-apps", sorted(rows.splitlines()),
           sorted(f"{pid}, {value}, {uuid}" for pid, value in used.items()))


def check_gpustat(card, uuid, used):
    seen = json.loads(run(sys.executable, "-m", "gpustat", "--json"))["gpus"][0]
    expect("gpustat: name", seen["name"], card[0])
    expect("gpustat: uuid", seen["uuid"], uuid)
    expect("gpustat: total", seen["memory.total"], card[1])
    expect("gpustat: processes", {p["pid"]: p["gpu_memory_usage"] for p in seen["processes"]}, used)


def check_nvitop(card, used):
    text = run(sys.executable, "-m", "nvitop", "--once", "--ascii")
    short = card[0].replace("NVIDIA ", "").replace("Tesla ", "")
    expect("nvitop: name", short[:12] in text, True)
    for pid, value in used.items():
        row = [line for line in text.splitlines() if f" {pid} " in line]
        expect("nvitop: process", len(row) == 1 and f"{value}MiB" in row[0], True)


def main():
    tool, smi, model = sys.argv[1:]
    card = CARDS[model]
    run(tool, "init", "--model", model, "--gpus", "2")
    run(tool, "ecc", "0", "--corrected", "3")
    holders = [Holder(1000), Holder(3000)]
    uuid, used, in_all = check_library(card, holders)
    if smi != "-":
        check_smi(smi, card, uuid, used, in_all)
    check_gpustat(card, uuid, used)
    check_nvitop(card, used)
    for holder in holders:
        holder.end()
    if smi != "-":
        rows = run(smi, "--query-compute-apps=pid", "--format=csv,noheader")
        expect("nvidia-smi: all gone", rows.strip(), "")
    print("\n".join(differences + (["ok"] if not differences else [])))
    sys.exit(1 if differences else 0)


main()
