"""The parts of the bench. Each has the number of its goal in the design."""

import json
import pathlib
import re
import statistics
import sys
import time

import place
from place import MIB

HERE = pathlib.Path(__file__).resolve().parent
FAMILIES = {  # allocation unit in MiB; who is judged by the whole card
    "alloc": (2, False), "alloc-small": (2, False), "pitch": (2, False), "managed": (128, True),
    "async": (32, False), "pool": (32, False), "managed-pool": (128, True), "virtual": (2, False),
    "array": (2, False), "mipmap": (2, False), "sparse": (2, True), "graph": (32, False),
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
                continue
            if errors:
                print(f"  P7 {case}: ended by error {sorted(errors)}", file=sys.stderr, flush=True)
                if NOT_SIMULATED in errors and here.sim:
                    continue
            rows.add("P7", case + ": over the limit", over, "MiB", "<= 0", over <= 0, is_limit=True)
            rows.add("P7", case + ": missing of what must be usable", missing, "MiB", "<= 0", missing <= 0)


def difference(here, line, rounds):
    """Two fresh processes, one with a limit: medians in us, taken turn by turn."""
    native, limited = here.start("pairs"), here.start("pairs", limit_mib=8192)
    times = ([], [])
    try:
        for tenant in (native, limited):
            tenant.answer()
            tenant.ask(line)  # warm
        for _ in range(rounds):
            for tenant, kept in zip((native, limited), times):
                kept.append(tenant.ask(line)["ns"])
    finally:
        native.close()
        limited.close()
    return [statistics.median(kept) / 1e3 for kept in times]


def p6(here, rows, options):
    """What calls cost, turn by turn with the same program without a limit."""
    pairs, rounds, count = (1, 3, 200) if options.small else (7, 5, 500)
    cases = [("alloc 2 MiB + free", f"alloc {2 * MIB} {count}", 0.5),
             ("alloc 64 MiB + free", f"alloc {64 * MIB} {count // 5}", 0.5),
             ("alloc 4 KiB + free", f"alloc 4096 {count}", 0.5),
             ("async alloc 1 MiB + free", f"async {MIB} {count}", 0.3),
             ("cuMemGetInfo", f"info 0 {count}", 0.0)]
    for name, line, allowed in cases:
        # Processes differ from each other by more than what is measured: many pairs of them.
        both = [difference(here, line, rounds) for _ in range(pairs)]
        more = statistics.median(after - before for before, after in both)
        native = [before for before, _ in both]
        rows.add("P6", f"{name}: native", statistics.median(native), "us")
        rows.add("P6", f"{name}: native, slowest process less fastest", max(native) - min(native), "us")
        rows.add("P6", f"{name}: with a limit, more", more, "us", f"<= {allowed}", more <= allowed)
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
    import subprocess
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
    smi = subprocess.run(here.under_limit(["nvidia-smi"], 4096), env=here.environment, capture_output=True, text=True,
                         timeout=60, check=False)
    print(smi.stdout + smi.stderr)
    shown = re.search(r"(\d+)MiB\s*/\s*(\d+)MiB", smi.stdout)
    rows.add("programs", "nvidia-smi inside: memory of the card", float(shown.group(2)) if shown else -1, "MiB",
             "= 4096", bool(shown) and shown.group(2) == "4096")


ALL = {"P6": p6, "P7": p7, "P8": p8, "starts": p8_starts, "programs": programs}
