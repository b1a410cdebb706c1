"""What tenants do, by name, and running several of them at the same time."""

import time

START_AFTER = 0.2  # seconds from the command to the common start: kernels are loaded meanwhile

LOADS = {
    "5us": dict(us=5, batch=100, depth=4),
    "50us": dict(us=50, batch=16, depth=4),
    "2ms": dict(us=2000, batch=1, depth=3),
    "20ms": dict(us=20000, batch=1, depth=2),
    "graph": dict(us=50, graph=20, batch=1, depth=4),
    "50us-deep": dict(us=50, batch=100, depth=20),
    "2ms-deep": dict(us=2000, batch=4, depth=16),
    "2ms-legacy": dict(us=2000, batch=1, depth=3, stream="legacy"),
    "50us-perthread": dict(us=50, batch=16, depth=4, stream="perthread"),
    "sync61": dict(kind="sync", us=61, sms=33),
    "gap200": dict(kind="sync", us=200, host_us=200),
    "eager": dict(kind="step", us=4, sms=33, n=100, host_us=5),
    "graphstep": dict(kind="step", us=4, sms=33, n=1, graph=100, host_us=40),
    "light": dict(kind="sync", us=200, host_us=4000),
    "request": dict(kind="request", us=50, n=100, period_ms=50),
    "torch-eager": dict(kind="eager"),
    "torch-graph": dict(kind="cudagraph"),
    "launch": dict(kind="launch"),
    "launchsync": dict(kind="launchsync"),
}


class Runner:
    """Gives loads to tenants, with kernel lengths that were calibrated once."""

    def __init__(self, meter):
        self.meter = meter  # a native tenant that is alone whenever it is asked
        self.iterations = {}
        self.rates = {}     # load -> exclusive rates measured so far

    def calibrate(self, us, sms):
        if (us, sms) not in self.iterations:
            self.meter.ask(f"calibrate us={us} sms={sms}")
            self.iterations[us, sms] = self.meter.answer(10)["iters"]
        return self.iterations[us, sms]

    def command(self, load, start, settle, seconds, extra):
        words = {**LOADS[load], **extra, "start": f"{start:.6f}", "settle": settle, "seconds": seconds}
        us = words.pop("us", None)
        if us is not None:
            words["iters"] = self.calibrate(us, words.get("sms", 0))
        return "run " + " ".join(f"{name}={value}" for name, value in words.items())

    def together(self, pairs, seconds, settle=0.5, meanwhile=None, **extra):
        """pairs of (tenant, load), all in the same span; their figures in order."""
        for _, load in pairs:
            self.command(load, 0, 0, 1, {})  # calibrated before the common start is set
        slow = any(load.startswith("torch") for _, load in pairs)
        start = time.monotonic() + (2.0 if slow else START_AFTER)
        for tenant, load in pairs:
            tenant.ask(self.command(load, start, settle, seconds, extra))
        if meanwhile is not None:
            meanwhile(start + settle)
        return [tenant.answer(settle + seconds) for tenant, _ in pairs]

    def measure_exclusive(self, load, seconds=0.8):
        result = self.together([(self.meter, load)], seconds, settle=0.2)[0]
        self.rates.setdefault(load, []).append(result)
        return result

    def exclusive(self, load):
        """The mean of what the card did for this load alone, without any limiter."""
        if load not in self.rates:
            self.measure_exclusive(load)
        rates = [result["rate"] for result in self.rates[load]]
        return sum(rates) / len(rates)

    def remeasure(self, seconds=0.8):
        for load in list(self.rates):
            self.measure_exclusive(load, seconds)

    def percent(self, result, load):
        return 100 * result["rate"] / self.exclusive(load)
