"""Runs under a limit: starts the tenant given as argument, which makes a context, and says as JSON what the
tools that are installed show of the card and its processes. What they print stands before it."""

import json
import re
import shutil
import subprocess
import sys


def by_nvitop(pid):
    try:
        import nvitop
    except ImportError:
        return {}
    text = subprocess.run([sys.executable, "-m", "nvitop", "--once", "--ascii"], capture_output=True, text=True,
                          check=False)
    print(text.stdout, text.stderr)
    device = nvitop.Device(0)
    processes = device.processes()
    return {"nvitop: total MiB": device.memory_total() >> 20, "nvitop: used MiB": device.memory_used() >> 20,
            "nvitop: processes": len(processes), "nvitop: own": int(pid in processes),
            "nvitop: MiB of the process": sum(p.gpu_memory() for p in processes.values()) >> 20}


def by_nvidia_smi():
    if shutil.which("nvidia-smi") is None:
        return {}
    run = subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=False)
    print(run.stdout, run.stderr)
    figures = re.search(r"(\d+)MiB\s*/\s*(\d+)MiB", run.stdout)
    used, total = (int(group) for group in figures.groups()) if figures else (-1, -1)
    return {"nvidia-smi: total MiB": total, "nvidia-smi: used MiB": used}


def main():
    tenant = subprocess.Popen([sys.argv[1], "pairs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    tenant.stdout.readline()  # it has a context
    try:
        answers = {**by_nvitop(tenant.pid), **by_nvidia_smi()}
    finally:
        tenant.stdin.close()
        tenant.wait()
    print(json.dumps(answers))


main()
