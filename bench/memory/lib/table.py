"""Rows of results: a table for people, JSON lines for files."""

import datetime
import json


class Table:
    def __init__(self, command, machine, driver):
        self.command, self.machine, self.driver = command.strip(), machine, driver
        self.rows = []

    def add(self, part, case, value, unit, goal="", holds=None, is_limit=False, interval=None):
        row = {"id": part, "case": case, "value": round(value, 4), "unit": unit, "goal": goal}
        if interval:
            row["low"], row["high"] = (round(end, 4) for end in interval)
        self.rows.append((row, holds, is_limit))
        print("  " + self.line(row, holds), flush=True)

    @staticmethod
    def line(row, holds):
        mark = {None: "", True: "ok", False: "MISSED"}[holds]
        ends = f"{row['low']} to {row['high']}" if "low" in row else ""
        return f"{row['id']:8} {row['case']:64} {row['value']:>12} {row['unit']:5} {ends:20} {row['goal']:10} {mark}"

    def text(self):
        return "\n".join(self.line(row, holds) for row, holds, _ in self.rows)

    def broken_limits(self):
        return [row for row, holds, is_limit in self.rows if is_limit and holds is False]

    def append_to(self, path):
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as out:
            for row, _, _ in self.rows:
                out.write(json.dumps({**row, "command": self.command, "machine": self.machine,
                                      "driver": self.driver, "date": date}) + "\n")
