"""The systems that are compared, and the tenants that run under them.

A tenant is one krux-bench-tenant process that takes commands on its standard input (tenant/main.cc).
A system says how such a process is started: alone (native: the card's own time slices decide), under
krux run, as a client of MPS, or with another limiter preloaded.
"""

import json
import os
import pathlib
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
import time

ANSWER_PATIENCE = 60  # seconds beyond what a command takes


class Trouble(Exception):
    """A system or tenant did not do what it should; the text says which and how."""


class Share:
    """What a tenant is promised."""

    def __init__(self, cores=0, policy="balance", priority="normal", program=None):
        self.cores, self.policy, self.priority = cores, policy, priority
        self.program = program  # instead of krux-bench-tenant


class Tenant:
    """One process; ask() sends a command, answer() gives its figures."""

    def __init__(self, words, environment, what):
        self.what = what
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            env={**os.environ, **environment}, text=True, bufsize=1)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def ask(self, command):
        try:
            self.process.stdin.write(command + "\n")
        except BrokenPipeError:
            raise Trouble(f"{self.what} has ended: {self.said()}") from None

    def answer(self, seconds=0.0):
        try:
            line = self.lines.get(timeout=seconds + ANSWER_PATIENCE)
        except queue.Empty:
            raise Trouble(f"{self.what} gave no answer: {self.said()}") from None
        if line is None:
            raise Trouble(f"{self.what} has ended: {self.said()}")
        return json.loads(line)

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip() or "it said nothing"

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class System:
    name = "native"

    def __init__(self, place):
        self.place = place

    def start(self, share):
        return Tenant([share.program or self.place.tenant], self.place.driver_environment(), f"{self.name} tenant")

    def close(self):
        pass


class Krux(System):
    """krux run with an agent of this bench's own: a node's agent, so that it can be killed and come
    back to what it held."""

    name = "krux"

    def __init__(self, place):
        super().__init__(place)
        self.folder = tempfile.mkdtemp(prefix="krux-bench-")
        self.agent = None
        self.start_agent()

    def start_agent(self):
        words = [self.place.agent, "--node", "bench", "--run-folder", self.folder, "--state-folder",
                 self.folder + "/state", "--kubelet-folder", self.folder + "/kubelet", "--limiter",
                 f"{self.place.build}/lib/libkrux.so", "--gpu", self.place.gpu]
        if self.place.sim_folder:
            words += ["--sim-libraries", f"{self.place.build}/sim", "--sim-folder", self.place.sim_folder]
        with open(self.folder + "/agent.log", "ab") as log:
            self.agent = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while not self.answers():
            if self.agent.poll() is not None or time.monotonic() > end:
                text = pathlib.Path(self.folder + "/agent.log").read_text(encoding="utf-8").splitlines()
                raise Trouble(f"the agent does not start: {text[-1] if text else 'it said nothing'}")
            time.sleep(0.02)

    def answers(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            return door.connect_ex(self.folder + "/agent.sock") == 0

    def kill_agent(self):
        self.agent.kill()
        self.agent.wait()

    def start(self, share):
        words = [self.place.krux, "run", "--run-folder", self.folder, "--gpu", self.place.gpu,
                 "--gpumem", "2GiB" if share.program is None else "16GiB", "--policy", share.policy, "--priority", share.priority]
        if share.cores:
            words += ["--gpucores", str(share.cores)]
        return Tenant(words + ["--", share.program or self.place.tenant], self.place.sim_environment(),
                      f"krux tenant of {share.cores} % {share.policy}")

    def command(self, *words):
        done = subprocess.run([self.place.krux, *words, "--run-folder", self.folder],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Trouble(f"krux {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def agent_seconds(self):
        """Processor time of the agent so far."""
        stat = pathlib.Path(f"/proc/{self.agent.pid}/stat").read_text(encoding="utf-8")
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.agent.terminate()
        self.agent.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Mps(System):
    """NVIDIA's multi-process service, with a thread percentage for tenants that have cores."""

    name = "mps"

    def __init__(self, place):
        super().__init__(place)
        self.folder = tempfile.mkdtemp(prefix="krux-bench-mps-")
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": self.folder + "/pipe",
                            "CUDA_MPS_LOG_DIRECTORY": self.folder + "/log"}
        for folder in self.environment.values():
            os.mkdir(folder)
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True,
                       env={**os.environ, **self.environment})

    def start(self, share):
        environment = dict(self.environment)
        if share.cores:
            environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(share.cores)
        return Tenant([share.program or self.place.tenant], environment, "mps tenant")

    def close(self):
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, check=False,
                       env={**os.environ, **self.environment}, stdout=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


class Rival(System):
    """Another limiter by path. Its variables may name {cores}, {policy} and {priority}."""

    def __init__(self, place, text):
        super().__init__(place)
        name, _, rest = text.partition("=")
        path, _, variables = rest.partition(":")
        if not name or not os.access(path, os.R_OK):
            raise Trouble(f"--rival {text}: use NAME=PATH:VARIABLE=VALUE,… with a library that is there")
        self.name, self.path = name, os.path.abspath(path)
        self.variables = [v.partition("=")[::2] for v in variables.split(",") if v]

    def start(self, share):
        environment = {"LD_PRELOAD": self.path}
        for name, value in self.variables:
            environment[name] = value.format(cores=share.cores or 100, policy=share.policy,
                                             priority=share.priority)
        return Tenant([share.program or self.place.tenant], environment, f"{self.name} tenant")


class Place:
    """Where the programs are, and on which card they run."""

    def __init__(self, build, gpu):
        self.build, self.gpu = build, gpu
        self.tenant = f"{build}/bin/krux-bench-tenant"
        self.krux, self.agent = f"{build}/bin/krux", f"{build}/bin/krux-agent"
        for program in (self.tenant, self.krux, self.agent):
            if not os.access(program, os.X_OK):
                raise Trouble(f"{program} is not there: scripts/build, or --build FOLDER")
        self.sim_folder = tempfile.mkdtemp(prefix="krux-bench-sim-") if gpu == "sim" else ""

    def sim_environment(self):
        return {"KRUX_SIM_FOLDER": self.sim_folder} if self.sim_folder else {}

    def driver_environment(self):
        """For programs that krux does not start."""
        if not self.sim_folder:
            return {}
        return {**self.sim_environment(), "LD_LIBRARY_PATH": f"{self.build}/sim"}

    def close(self):
        if self.sim_folder:
            shutil.rmtree(self.sim_folder, ignore_errors=True)


def has_mps():
    return shutil.which("nvidia-cuda-mps-control") is not None
