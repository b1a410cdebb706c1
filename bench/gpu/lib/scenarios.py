"""P1 to P5: the figures of the design, each for every system that can show it.

Every function takes a Bench (see run) and adds rows to its report. Shares are percent of the rate that
the same kernels had alone and without a limiter in the same run.
"""

from systems import Share

PAIR_LOADS = [("50us", "50us"), ("2ms", "2ms"), ("50us", "20ms"), ("50us-deep", "50us-deep"),
              ("2ms-legacy", "2ms-legacy"), ("50us-perthread", "50us-perthread"), ("graph", "graph")]
KERNEL_MS = {"2ms": 2, "20ms": 20, "2ms-deep": 2, "2ms-legacy": 2}


def p1(bench):
    """A ceiling alone on the card."""
    for cores in bench.pick([10, 25, 50, 75, 90], [25, 75]):
        for system in bench.limiters():
            with bench.tenants(system, [Share(cores, "fixed")]) as (tenant,):
                for load in bench.pick(["5us", "50us", "2ms", "20ms", "graph"], ["50us", "2ms"]):
                    seconds = bench.seconds * (1.25 if load == "20ms" else 0.6)
                    got = bench.run.together([(tenant, load)], seconds, settle=0.4)[0]
                    percent = bench.run.percent(got, load)
                    bench.report.add("P1", system.name, f"{cores} % fixed, {load}: share got", percent,
                                     "%", f"{cores} +- 1", error=round(percent - cores, 3),
                                     highest_1s=round(100 * got["highest"] / bench.run.exclusive(load), 2))


def p2(bench):
    """Tenants that all want the whole card."""
    mixes = bench.pick([(30, 70), (50, 50), (10, 90), (20, 30, 50)], [(30, 70), (20, 30, 50)])
    for cores in mixes:
        loads = PAIR_LOADS if cores == (30, 70) else PAIR_LOADS[:3]
        for system in bench.systems:
            if system.name == "native" and len(set(cores)) > 1:
                continue  # time slices know no weights
            mine = loads if system.name == "krux" else loads[:3]
            with bench.tenants(system, [Share(c) for c in cores]) as tenants:
                for first, last in bench.pick(mine, mine[:2]):
                    together(bench, system, cores, tenants, [first] * (len(cores) - 1) + [last])


def together(bench, system, cores, tenants, loads):
    seconds = bench.seconds * (1.5 if "20ms" in loads else 1)
    results = bench.run.together(list(zip(tenants, loads)), seconds)
    percents = [bench.run.percent(r, load) for r, load in zip(results, loads)]
    case = ":".join(map(str, cores)) + " " + "+".join(dict.fromkeys(loads))
    worst = max(abs(p - c) for p, c in zip(percents, cores))
    shown = [round(p, 2) for p in percents]
    bench.report.add("P2", system.name, case + ": furthest from its share", worst, "points", "<= 1",
                     got="+".join(map(str, shown)))
    bench.report.add("P2", system.name, case + ": together", sum(percents), "%", ">= 99")
    if max(KERNEL_MS.get(load, 0.05) for load in loads) <= 2:
        bound = 60 if len(cores) == 2 else (len(cores) - 1) * 30
        bench.report.add("P2", system.name, case + ": longest gap", max(r["gap_ms"] for r in results),
                         "ms", f"<= {bound}")


def p3(bench):
    """Tenants with gaps: what they do together, as percent of what one does alone without a limiter."""
    for load in bench.pick(["sync61", "gap200", "eager", "graphstep"], ["gap200"]):
        for count in bench.pick([1, 2, 4], [2]):
            for system in bench.systems:
                if system.name == "native" and count == 1:
                    continue
                with bench.tenants(system, [Share(100 // count)] * count) as tenants:
                    results = bench.run.together([(t, load) for t in tenants], bench.seconds * 0.75, settle=1.5)
                percents = [bench.run.percent(r, load) for r in results]
                bench.report.add("P3", system.name, f"{count} x {load}: together", sum(percents), "%",
                                 ">= 97" if load == "sync61" else ">= 98 % of the best",
                                 got="+".join(str(round(p, 1)) for p in percents))
    heavy_and_light(bench)


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
            for load, goal in [("launch", ">= 99"), ("5us", ">= 99"), ("50us", ">= 99.5"),
                               ("eager", ">= 99.5"), ("graphstep", ">= 99.5"), ("sync61", ">= 99")]:
                ratios = [pair(bench, plain, mine, load, "rate") for _ in range(bench.pick(3, 1))]
                bench.report.add("P5", system.name, f"alone, {load}: rate of native",
                                 100 * sorted(a / b for b, a in ratios)[len(ratios) // 2], "%", goal)
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


ALL = {"P1": p1, "P2": p2, "P3": p3, "P4": p4, "P5": p5}
