"""Rows of results: a table for people, JSON lines for files."""

import datetime
import json
import os


class Report:
    def __init__(self, machine, driver, command, ids):
        self.machine, self.driver, self.command, self.ids = machine, driver, command, ids
        self.rows = []

    def add(self, scenario, system, case, value, unit, goal="", **more):
        row = {"id": scenario, "system": system, "case": case, "value": round(value, 3), "unit": unit,
               "goal": goal, **more}
        self.rows.append(row)
        print(f"  {scenario:4} {system:8} {case:44} {row['value']:>10} {unit:7} {goal}"
              + "".join(f"  {name} {value}" for name, value in more.items()
                        if not isinstance(value, list)), flush=True)

    def table(self):
        """One line for each case, one column for each system."""
        systems = list(dict.fromkeys(row["system"] for row in self.rows))
        lines = {}
        for row in self.rows:
            key = (row["id"], row["case"], row["unit"])
            lines.setdefault(key, {"goal": ""})[row["system"]] = row["value"]
            lines[key]["goal"] = lines[key]["goal"] or row["goal"]
        width = max([len(case) for _, case, _ in lines] + [4])
        head = f"{'#':4} {'case':{width}} " + " ".join(f"{s:>9}" for s in systems) + "  unit     goal"
        text = [head, "-" * len(head)]
        for (scenario, case, unit), values in lines.items():
            cells = " ".join(f"{values.get(s, '-'):>9}" for s in systems)
            text.append(f"{scenario:4} {case:{width}} {cells}  {unit:8} {values['goal']}")
        return "\n".join(text)

    def append_to(self, path):
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "a", encoding="utf-8") as out:
            for row in self.rows:
                out.write(json.dumps({**row, "command": self.command, "machine": self.machine,
                                      "driver": self.driver, "date": date}) + "\n")
