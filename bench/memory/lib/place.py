"""Where the programs are, how they are started with and without a limit, and the card's own figures."""

import ctypes
import fcntl
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time

PATIENCE = 180  # seconds for one answer
MIB = 1 << 20


class Trouble(Exception):
    """A program did not do what it should; the text says which and how."""


class Place:
    def __init__(self, options):
        self.build = pathlib.Path(options.build)
        self.sim = options.gpu == "sim"
        self.tenant = self.build / "bin/krux-bench-memory"
        self.krux = self.build / "bin/krux"
        for program in (self.tenant, self.krux):
            if not program.exists():
                raise SystemExit(f"{program} is not there: run scripts/build first")
        self.folder = tempfile.TemporaryDirectory(prefix="krux-bench-", ignore_cleanup_errors=True)
        self.environment = dict(os.environ)
        if self.sim:
            self.environment["KRUX_SIM_FOLDER"] = self.folder.name
            self.environment["LD_LIBRARY_PATH"] = str(self.build / "sim")
            subprocess.run([self.build / "bin/krux-sim", "init", "--gpus", "1"], check=True,
                           env=self.environment, stdout=subprocess.DEVNULL)

    def close(self):
        """Removes the folder, when the agent that worked in it has ended (it does, idle, after 2 s)."""
        lock = pathlib.Path(self.folder.name, "run/agent.lock")
        end = time.monotonic() + 10
        while lock.exists() and time.monotonic() < end:
            with open(lock, encoding="utf-8") as held:
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.1)
        self.folder.cleanup()

    def driver(self):
        if self.sim:
            return "simulated"
        words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()

    def words(self, command, limit_mib):
        if not limit_mib:
            return [str(self.tenant), *command]
        return self.under_limit([str(self.tenant), *command], limit_mib)

    def under_limit(self, words, limit_mib):
        # With an agent of its own, whatever else runs on this node.
        run = [str(self.krux), "run", "--run-folder", self.folder.name + "/run", "--gpumem", str(limit_mib)]
        if self.sim:
            run += ["--gpu", "sim"]
        return [*run, "--", *words]

    def once(self, *command, limit_mib=0, patience=PATIENCE):
        """Runs one command to its end; its last line of JSON."""
        run = subprocess.run(self.words(command, limit_mib), env=self.environment, text=True,
                             capture_output=True, timeout=patience, check=False)
        lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
        if run.returncode != 0 or not lines:
            raise Trouble(f"{' '.join(command)}: exit {run.returncode}: {run.stderr.strip()[-400:]}")
        return json.loads(lines[-1])

    def start(self, *command, limit_mib=0):
        return Tenant(self.words(command, limit_mib), self.environment)

    def card(self):
        return Card(self)


class Tenant:
    """A program that answers each line with a line of JSON."""

    def __init__(self, words, environment):
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(words, env=environment, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def answer(self):
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line.startswith("{"):
            self.errors.seek(0)
            raise Trouble(f"no answer from {' '.join(map(str, self.process.args))}: {self.errors.read()[-400:]}")
        return json.loads(line)

    def say(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.say(line)
        return self.answer()

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
        self.process.wait()


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]


class Card:
    """The card as its own library shows it to the host: what no limiter stands between."""

    def __init__(self, place):
        path = "libnvidia-ml.so.1"
        if place.sim:
            os.environ["KRUX_SIM_FOLDER"] = place.folder.name
            path = str(place.build / "sim/libnvidia-ml.so.1")
        self.nvml = ctypes.CDLL(path)
        self.nvml.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def used(self):
        memory = _Memory()
        self.nvml.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(memory))
        return memory.used

    def listed(self):
        """Bytes of all processes that the driver lists, together."""
        count = ctypes.c_uint(256)
        processes = (_Process * 256)()
        self.nvml.nvmlDeviceGetComputeRunningProcesses_v3(self.device, ctypes.byref(count), processes)
        return sum(p.used for p in processes[: count.value] if p.used != 2**64 - 1)


class Watch(threading.Thread):
    """The most that the card had in use while it ran: by its processes, and as a whole."""

    def __init__(self, card):
        super().__init__(daemon=True)
        self.card, self.most_listed, self.most_used, self.running = card, 0, 0, True
        self.looks = 0

    def run(self):
        while self.running:
            self.most_listed = max(self.most_listed, self.card.listed())
            self.most_used = max(self.most_used, self.card.used())
            self.looks += 1
            time.sleep(0.001)

    def stop(self):
        self.running = False
        self.join()
