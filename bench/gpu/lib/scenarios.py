"""P1 to P9: the figures of the design, each for every system that can show it.

Every function takes a Bench (see run) and adds rows to its report. Shares are percent of the rate that
the same kernels had alone and without a limiter in the same run.
"""

import json
import pathlib
import time

from systems import Share

PAIR_LOADS = [("50us", "50us"), ("2ms", "2ms"), ("50us", "20ms"), ("50us-deep", "50us-deep"),
              ("2ms-legacy", "2ms-legacy"), ("50us-perthread", "50us-perthread"), ("graph", "graph")]
SLOT_MS = 10  # of timelines
KERNEL_MS = {"2ms": 2, "20ms": 20, "2ms-deep": 2, "2ms-legacy": 2}


def p1(bench):
    """A ceiling alone on the card."""
    for cores in bench.pick([10, 25, 50, 75, 90], [25, 75]):
        for system in bench.limiters():
            with bench.tenants(system, [Share(cores, "fixed")]) as (tenant,):
                for load in bench.loads(bench.pick(["5us", "50us", "2ms", "20ms", "graph"], ["50us", "2ms"])):
                    seconds = bench.seconds * (1.25 if load == "20ms" else 0.6)
                    got = bench.run.together([(tenant, load)], seconds, settle=0.4)[0]
                    percent = bench.run.percent(got, load)
                    bench.report.add("P1", system.name, f"{cores} % fixed, {load}: share got", percent,
                                     "%", f"{cores} +- 1", error=round(percent - cores, 3),
                                     highest_1s=round(100 * got["highest"] / bench.run.exclusive(load), 2))


def p2(bench):
    """Tenants that all want the whole card."""
    mixes = bench.pick([(30, 70), (50, 50), (10, 90), (20, 30, 50)], [(30, 70), (20, 30, 50)])
    if bench.mixes:
        mixes = [cores for cores in mixes if ":".join(map(str, cores)) in bench.mixes]
    for cores in mixes:
        loads = PAIR_LOADS if cores == (30, 70) else PAIR_LOADS[:3]
        for system in bench.systems:
            if system.name == "native" and len(set(cores)) > 1:
                continue  # time slices know no weights
            mine = loads if system.name == "krux" else loads[:3]
            with bench.tenants(system, [Share(c) for c in cores]) as tenants:
                for first, last in bench.pick(mine, mine[:2]):
                    if last not in bench.loads([last]):
                        continue
                    together(bench, system, cores, tenants, [first] * (len(cores) - 1) + [last])


def timelines(bench, results, loads):
    """For plots: percent of the card in each slot, a list for each tenant; nothing without slots."""
    if "timeline" not in results[0]:
        return {}
    full = [bench.run.exclusive(load) * SLOT_MS / 1e3 for load in loads]
    return {"slot_ms": SLOT_MS,
            "timeline": [[round(100 * n / f, 1) for n in r["timeline"]] for r, f in zip(results, full)]}


def together(bench, system, cores, tenants, loads):
    seconds = bench.seconds * (1.5 if "20ms" in loads else 1)
    drawn = dict(slot_ms=SLOT_MS) if cores == (30, 70) and system.name == "krux" else {}
    results = bench.run.together(list(zip(tenants, loads)), seconds, **drawn)
    percents = [bench.run.percent(r, load) for r, load in zip(results, loads)]
    case = ":".join(map(str, cores)) + " " + "+".join(dict.fromkeys(loads))
    worst = max(abs(p - c) for p, c in zip(percents, cores))
    shown = [round(p, 2) for p in percents]
    bench.report.add("P2", system.name, case + ": furthest from its share", worst, "points", "<= 1",
                     got="+".join(map(str, shown)), **timelines(bench, results, loads))
    bench.report.add("P2", system.name, case + ": together", sum(percents), "%", ">= 99")
    if max(KERNEL_MS.get(load, 0.05) for load in loads) <= 2:
        bound = 60 if len(cores) == 2 else (len(cores) - 1) * 30
        bench.report.add("P2", system.name, case + ": longest gap", max(r["gap_ms"] for r in results),
                         "ms", f"<= {bound}")


def p3(bench):
    """Tenants with gaps: what they do together, as percent of what one does alone without a limiter."""
    for load in bench.loads(bench.pick(["sync61", "gap200", "eager", "graphstep"], ["gap200"])):
        for count in bench.pick([2, 4], [2]):
            for system in bench.systems:
                if system.name == "native" and count == 1:
                    continue
                with bench.tenants(system, [Share(100 // count)] * count) as tenants:
                    results = bench.run.together([(t, load) for t in tenants], bench.seconds * 0.75, settle=1.5)
                    leases = leases_of(system)
                percents = [bench.run.percent(r, load) for r in results]
                bench.report.add("P3", system.name, f"{count} x {load}: together", sum(percents), "%",
                                 ">= 97" if load == "sync61" else ">= 98 % of the best",
                                 got="+".join(str(round(p, 1)) for p in percents), **leases)
    if bench.loads(["light"]):
        heavy_and_light(bench)


def leases_of(system):
    """How many leases the tenants of a Krux have had so far; few and long ones, or many short ones."""
    if system.name != "krux":
        return {}
    return {"leases": sum(row.get("leases", 0) for row in json.loads(system.command("top", "--json")))}


def heavy_and_light(bench):
    for system in bench.systems:
        with bench.tenants(system, [Share(50), Share(50)]) as tenants:
            heavy, light = bench.run.together(list(zip(tenants, ["2ms", "light"])), bench.seconds, settle=1.5)
        bench.report.add("P3", system.name, "heavy (2 ms) beside light (200 us of 4 ms): heavy",
                         bench.run.percent(heavy, "2ms"), "%", ">= 94",
                         light=round(bench.run.percent(light, "light"), 1))


def p4(bench):
    """Requests of about 5 ms, one each 50 ms, beside a neighbour that wants all."""
    alone = bench.run.measure_exclusive("request", bench.seconds)
    bench.report.add("P4", "native", "request alone: p99", alone["p99_ms"], "ms", p50=alone["p50_ms"])
    left = 1 - alone["p50_ms"] / 50
    for load, more in bench.pick([("2ms", 2.3), ("20ms", 22), ("50us-deep", 1)], [("2ms", 2.3)]):
        for system in bench.systems:
            shares = [Share(20, priority="latency"), Share(80)] if system.name == "krux" else [Share()] * 2
            with bench.tenants(system, shares) as tenants:
                request, other = bench.run.together(list(zip(tenants, ["request", load])),
                                                    bench.seconds * 1.25)
            bench.report.add("P4", system.name, f"request beside {load}: p99 more than alone",
                             request["p99_ms"] - alone["p99_ms"], "ms", f"<= {more}",
                             p50=request["p50_ms"], p99=request["p99_ms"], max=request["max_ms"])
            bench.report.add("P4", system.name, f"request beside {load}: neighbour keeps of the rest",
                             bench.run.percent(other, load) / left, "%", ">= 97")


def p5(bench):
    """What it costs to be alone under a system: pairs of runs, one after the other."""
    native = bench.native
    for system in bench.limiters():
        with bench.tenants(native, [Share()]) as (plain,), bench.tenants(system, [Share()]) as (mine,):
            goals = {"launch": ">= 99", "5us": ">= 99", "50us": ">= 99.5", "eager": ">= 99.5",
                     "graphstep": ">= 99.5", "sync61": ">= 99"}
            for load in bench.loads(goals):
                ratios = [pair(bench, plain, mine, load, "rate") for _ in range(bench.pick(3, 1))]
                bench.report.add("P5", system.name, f"alone, {load}: rate of native",
                                 100 * sorted(a / b for b, a in ratios)[len(ratios) // 2], "%", goals[load])
            if not bench.loads(["launchsync"]):
                continue
            costs = [pair(bench, plain, mine, "launchsync", "p50_ms") for _ in range(bench.pick(3, 1))]
            more = sorted(a - b for b, a in costs)[len(costs) // 2]
            bench.report.add("P5", system.name, "launch + synchronize: more than native", 1e3 * more, "us",
                             "<= 0.2", native_us=round(1e3 * costs[0][0], 2))


def pair(bench, plain, mine, load, field):
    seconds = bench.seconds * 0.2
    before = bench.run.together([(plain, load)], seconds, settle=0.1)[0][field]
    got = bench.run.together([(mine, load)], seconds, settle=0.1)[0][field]
    after = bench.run.together([(plain, load)], seconds, settle=0.1)[0][field]
    return (before + after) / 2, got


def p9(bench):
    """A limit is changed while the tenant runs: how long until it is in force."""
    krux = next((s for s in bench.systems if s.name == "krux"), None)
    if krux is None:
        return
    slot = 10  # milliseconds
    with bench.tenants(krux, [Share(80, "fixed")]) as (tenant,):
        name = json.loads(krux.command("top", "--json"))[0]["container"]
        change = {}

        def lower(begin):
            time.sleep(max(0.0, begin + 1 - time.monotonic()))
            change["from"] = time.monotonic() - begin
            krux.command("set", name, "--gpucores", "20")
            change["to"] = time.monotonic() - begin

        got = bench.run.together([(tenant, "50us")], 3, meanwhile=lower, slot_ms=slot)[0]
    full = bench.run.exclusive("50us") * slot / 1e3
    done = [n / full for n in got["timeline"]]
    ms = in_force_after(done, change["from"] * 1e3 / slot, 0.20, 50 // slot) * slot
    bench.report.add("P9", "krux", "80 to 20 % fixed: in force after", ms, "ms", "<= 50",
                     command_ms=round(1e3 * (change["to"] - change["from"]), 1),
                     after=round(100 * sum(done[150:]) / len(done[150:]), 2))


def in_force_after(done, change, target, period):
    """Slots from the change to the first time from which on every period's mean is near the target."""
    first = int(change)
    for start in range(len(done) - period, first, -1):
        if sum(done[start:start + period]) / period > target + 0.05:
            return max(1.0, start + 1 - change)
    return 1.0  # within the slot of the change


def agent_killed(bench):
    """The agent is killed in the middle of a 30:70 pair and comes back."""
    krux = next((s for s in bench.systems if s.name == "krux"), None)
    if krux is None:
        return
    span = max(2.0, bench.seconds * 0.6)
    with bench.tenants(krux, [Share(30), Share(70)]) as tenants:
        marks = {}

        def kill(begin):
            time.sleep(max(0.0, begin + span - time.monotonic()))
            krux.kill_agent()
            marks["gone"] = time.monotonic() - begin
            time.sleep(span)
            krux.start_agent()
            marks["back"] = time.monotonic() - begin

        slot = 5
        results = bench.run.together([(t, "50us") for t in tenants], 3 * span + 1, meanwhile=kill,
                                     slot_ms=slot)
    full = bench.run.exclusive("50us") * slot / 1e3
    parts = {"before": (0, marks["gone"]), "gone": (marks["gone"] + 0.2, marks["back"]),
             "back": (marks["back"] + 0.3, 3 * span + 0.95)}
    for part, (begin, end) in parts.items():
        shares = []
        for result in results:
            slots = result["timeline"][int(begin * 1e3 / slot):int(end * 1e3 / slot)]
            shares.append(100 * sum(slots) / len(slots) / full)
        bench.report.add("KILL", "krux", f"agent {part}: furthest from 30:70",
                         max(abs(shares[0] - 30), abs(shares[1] - 70)), "points",
                         "<= 5" if part == "gone" else "<= 1", got="+".join(str(round(s, 1)) for s in shares),
                         timeline=[[n for n in r["timeline"][int(begin * 1e3 / slot):int(end * 1e3 / slot)]]
                                   for r in results])
    bench.report.add("KILL", "krux", "longest gap of all", max(r["gap_ms"] for r in results), "ms", "<= 100")


def agent_cost(bench):
    """What the agent takes of one core: busy pairs, and tenants that do nothing."""
    krux = next((s for s in bench.systems if s.name == "krux"), None)
    if krux is None:
        return
    for count, load in ((2, "50us"), (bench.pick(16, 4), None)):
        with bench.tenants(krux, [Share(100 // count)] * count) as tenants:
            begin, used = time.monotonic(), krux.agent_seconds()
            if load:
                bench.run.together([(t, load) for t in tenants], bench.seconds)
            else:
                time.sleep(bench.seconds)
            percent = 100 * (krux.agent_seconds() - used) / (time.monotonic() - begin)
        bench.report.add("COST", "krux", f"agent with {count} {'busy' if load else 'idle'} tenants",
                         percent, "% core", "<= 1")


def torch_programs(bench):
    """PyTorch: steps alone and of a 30:70 pair, of what a native program of the same run does."""
    program = str(pathlib.Path(__file__).resolve().parent.parent / "torch_tenant")
    krux = next((s for s in bench.systems if s.name == "krux"), None)
    if krux is None:
        return
    native = {}
    with bench.tenants(bench.native, [Share(program=program)]) as (plain,), \
            bench.tenants(krux, [Share(program=program)]) as (mine,):
        for load in ("torch-eager", "torch-graph"):
            runs = [bench.run.together([(t, load)], bench.seconds * 0.6, settle=0.3)[0]["rate"]
                    for t in (plain, mine, plain, mine)]
            native[load] = (runs[0] + runs[2]) / 2
            bench.report.add("P5", "krux", f"alone, {load}: rate of native",
                             100 * (runs[1] + runs[3]) / 2 / native[load], "%", ">= 99.5",
                             native=round(native[load], 1))
    for load in ("torch-eager", "torch-graph"):
        for system, shares in ((krux, [Share(30, program=program), Share(70, program=program)]),
                               (bench.native, [Share(program=program)] * 2)):
            with bench.tenants(system, shares) as tenants:
                got = bench.run.together([(t, load) for t in tenants], bench.seconds, settle=1.5)
            percents = [100 * r["rate"] / native[load] for r in got]
            bench.report.add("P2", system.name, f"30:70 {load}: together", sum(percents), "%", "",
                             got="+".join(str(round(p, 1)) for p in percents))


ALL = {"P1": p1, "P2": p2, "P3": p3, "P4": p4, "P5": p5, "P9": p9, "KILL": agent_killed,
       "COST": agent_cost, "TORCH": torch_programs}
