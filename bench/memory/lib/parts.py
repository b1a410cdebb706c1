"""The parts of the bench. Each has the number of its goal in the design."""

import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

import place
from place import MIB

HERE = pathlib.Path(__file__).resolve().parent
FAMILIES = {  # allocation unit in MiB; who is judged by the whole card
    "alloc": (2, False), "alloc-small": (2, False), "pitch": (2, False), "managed": (128, True),
    "managed-freed": (128, True), "async": (32, False), "pool": (32, False), "managed-pool": (128, True),
    "virtual": (2, False), "array": (2, False), "mipmap": (2, False), "sparse": (2, True), "graph": (32, False),
    "captured": (32, False), "module": (2, False), "local": (132, False),
}
NOT_SIMULATED = 801


def fill(here, card, family, processes, limit_mib):
    """Fills until there is no more. Returns (MiB over the limit, MiB missing below it, error)."""
    base = card.used()
    command = ("local", str(processes)) if family == "local" else ("fill", family, str(processes))
    tenant = here.start(*command, limit_mib=limit_mib)
    watch = place.Watch(card)
    try:
        tenant.answer()
        time.sleep(0.3)  # the agent settles the contexts
        contexts, whole = card.listed(), card.used() - base
        watch.start()
        done = tenant.ask("go")
        time.sleep(0.05)
        watch.stop()
        tenant.say()
    finally:
        watch.running = False
        tenant.close()
    unit, by_card = FAMILIES[family]
    overhead = max(whole - contexts, 0)  # of the driver, in no process's figure
    most = watch.most_used - base - overhead if by_card else watch.most_listed
    got = sum(p["bytes"] for p in done["processes"])
    errors = {p["error"] for p in done["processes"]} - {0}
    # Each process has steps of its own in memory that the driver shares out by process.
    units = unit * processes if by_card and unit > 2 else unit
    wanted = limit_mib * MIB - contexts - (units + 2 * processes) * MIB
    return most / MIB - limit_mib, (wanted - got) / MIB, errors


def wait_until_idle(card):
    for _ in range(500):
        if card.listed() == 0:
            return
        time.sleep(0.01)


def p7(here, rows, options):
    """Every family, 1 and 4 processes racing: never over the limit, and all of it usable."""
    card = here.card()
    chosen = options.families.split(",") if options.families else list(FAMILIES)
    failed = 0
    for family in chosen:
        for processes in (1, 4):
            limit_mib = 2048 if here.sim else 4096 if processes == 1 else 6144
            if processes == 4:
                limit_mib = max(limit_mib, 3072)
            wait_until_idle(card)
            case = f"{family}, {processes} process{'es' if processes > 1 else ''}, limit {limit_mib} MiB"
            try:
                over, missing, errors = fill(here, card, family, processes, limit_mib)
            except place.Trouble as trouble:
                print(f"  P7 {case}: {trouble}", file=sys.stderr, flush=True)
                failed += 1
                continue
            if errors:
                print(f"  P7 {case}: ended by error {sorted(errors)}", file=sys.stderr, flush=True)
                if NOT_SIMULATED in errors and here.sim:
                    continue
                failed += 1
            rows.add("P7", case + ": over the limit", over, "MiB", "<= 0", over <= 0, is_limit=True)
            rows.add("P7", case + ": missing of what must be usable", missing, "MiB", "<= 0", missing <= 0)
    if failed:
        raise place.Trouble(f"{failed} cases did not end as they should")


def more_than_the_driver(here, lines, limit_mib, processes):
    """In so many fresh processes one after the other: for each line a list of (us by the driver's own
    function, us more by the program's own call), medians over blocks that take turns in the process."""
    figures = {line: [] for line in lines}
    for _ in range(processes):
        tenant = here.start("pairs", limit_mib=limit_mib)
        try:
            tenant.answer()
            for line in lines:
                blocks = tenant.ask(line)
                if 0 in blocks["own"] + blocks["driver"]:
                    raise place.Trouble(f"{line}: a call failed in the timed loop")
                more = statistics.median(own - driver for own, driver in zip(blocks["own"], blocks["driver"]))
                figures[line].append((statistics.median(blocks["driver"]) / 1e3, more / 1e3))
        finally:
            tenant.close()
    return figures


def interval(values):
    """Ends that hold the true median between them in at least 95 of 100 cases, whatever the distribution: as
    many of the least and of the most are left out as that allows. Of less than 6 values none is left out."""
    values, left_out = sorted(values), 0
    beyond = [2 * math.comb(len(values), i) / 2 ** len(values) for i in range(len(values) + 1)]
    while sum(beyond[:left_out + 2]) <= 0.05:
        left_out += 1
    return values[left_out], values[-1 - left_out]


def decide(low, high, allowed):
    """Whether a goal holds, when all of an interval says so; None when it does not decide."""
    return True if high <= allowed else False if low > allowed else None


def p6(here, rows, options):
    """What calls cost, turn by turn with the driver's own function in the same process.

    Processes differ too, so the interval is one over processes. The same without a limit shows what the method
    itself adds.
    """
    processes, blocks, count = (3, 20, 5) if options.small else (16, 200, 5)
    cases = [(name, f"{call} {blocks} {count}", allowed) for name, call, allowed in (
        ("alloc 2 MiB + free", f"alloc {2 * MIB}", 0.5), ("alloc 64 MiB + free", f"alloc {64 * MIB}", 0.5),
        ("alloc 4 KiB + free", "alloc 4096", 0.5), ("async alloc 1 MiB + free", f"async {MIB}", 0.3),
        ("cuMemGetInfo", "info 0", 0.0))]
    lines = [line for _, line, _ in cases]
    limited = more_than_the_driver(here, lines, 8192, processes)
    without = more_than_the_driver(here, lines, 0, processes)
    for name, line, allowed in cases:
        for what, values, goal in (("the driver's own", [driver for driver, _ in limited[line]], None),
                                   ("with a limit, more", [more for _, more in limited[line]], allowed),
                                   ("without a limit, more", [more for _, more in without[line]], None)):
            ends = interval(values)
            rows.add("P6", f"{name}: {what}", statistics.median(values), "us",
                     "" if goal is None else f"<= {goal}", None if goal is None else decide(*ends, goal), interval=ends)
    times = ([], [])
    for _ in range(3 if options.small else 12):
        times[0].append(here.once("context", "1")["ns"] / 1e6)
        times[1].append(here.once("context", "1", limit_mib=8192)["ns"] / 1e6)
    before, after = (statistics.median(kept) for kept in times)
    rows.add("P6", "context: native", before, "ms")
    rows.add("P6", "context: with a limit, of native", after / before, "x", "<= 1.03", after / before <= 1.03)


def p8(here, rows, options):
    """Processes killed at random points."""
    kills = 60 if options.small else options.kills
    longest = 40 if here.sim else 700
    got = here.once("kills", str(kills), "8", str(longest), limit_mib=12288, patience=420)
    rows.add("P8", f"{got['kills']} kills: memory credited after the process is gone, worst", got["worst_ms"], "ms",
             "<= 100", got["worst_ms"] <= 100)
    rows.add("P8", f"{got['kills']} kills: the same, median", got["median_ms"], "ms")
    rows.add("P8", f"{got['kills']} kills: longest wait of a neighbour ({got['neighbour_refusals']} asked)",
             got["neighbour_worst_ms"], "ms", "<= 10", got["neighbour_worst_ms"] <= 10)
    rows.add("P8", f"{got['kills']} kills: left in the account at the end", got["left_bytes"] / MIB, "MiB", "= 0",
             got["left_bytes"] == 0, is_limit=True)


def p8_starts(here, rows, options):
    """Many processes that start at once."""
    starts = 16 if options.small else 64
    times = ([], [])
    for _ in range(1 if options.small else 2):
        times[0].append(here.once("starts", str(starts))["seconds"])
        times[1].append(here.once("starts", str(starts), limit_mib=49152)["seconds"])
    before, after = (statistics.median(kept) for kept in times)
    rows.add("P8", f"{starts} starts at once: native", before, "s")
    rows.add("P8", f"{starts} starts at once: with a limit, of native", after / before, "x", "<= 1.1", after / before <= 1.1)


def programs(here, rows, _options):
    """Real programs under a limit, where they are installed."""
    if here.sim:
        print("  not on the simulated card")
        return
    for name in ("native", "expandable", "async"):
        words = here.under_limit([sys.executable, str(HERE / "torch_program.py"), name], 8192)
        run = subprocess.run(words, env=here.environment, capture_output=True, text=True, timeout=150, check=False)
        lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
        if not lines:
            print(f"  PyTorch, {name} allocator: {run.stderr.strip()[-800:]}", file=sys.stderr, flush=True)
            continue
        for what, value in json.loads(lines[-1]).items():
            wanted = 8192 if what == "total MiB" else None if what == "filled MiB" else 1
            rows.add("programs", f"PyTorch, {name} allocator: {what}", value, "MiB" if wanted != 1 else "",
                     f"= {wanted}" if wanted else "", None if wanted is None else value == wanted)


def shown(here, rows, _options):
    """What nvidia-smi and nvitop show inside, with one process that has a context, where they are installed."""
    limit_mib = 4096
    words = here.under_limit([sys.executable, str(HERE / "shown_program.py"), str(here.tenant)], limit_mib)
    run = subprocess.run(words, env=here.environment, capture_output=True, text=True, timeout=60, check=False)
    print(run.stdout)
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode != 0 or not lines:
        raise place.Trouble(f"shown_program.py: exit {run.returncode}: {run.stderr.strip()[-800:]}")
    for what, value in json.loads(lines[-1]).items():
        wanted = {"total MiB": limit_mib, "processes": 1, "own": 1}.get(what.split(": ")[1])
        holds = None if wanted is None else value == wanted
        rows.add("shown", what, value, "", f"= {wanted}" if wanted else "", holds)


ALL = {"P6": p6, "P7": p7, "P8": p8, "starts": p8_starts, "programs": programs, "shown": shown}
