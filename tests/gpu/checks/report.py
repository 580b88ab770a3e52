"""What was seen: printed as it comes, kept, and one table in the end."""

import json
import time

LOG_CHARACTERS_MAX = 20_000  # of one process: its end
MEASURED = "measured"
_WORDS = {True: "ok  ", False: "FAIL", None: "skip", MEASURED: "    "}


class Report:
    """`stream` gets the text; `out`, a folder or None, gets output.txt, results.json, raw.json and logs.txt."""

    def __init__(self, stream, out):
        self._stream, self._out = stream, out
        self._parts = {}  # name: seconds
        self.rows = []  # of checks
        self.measured = []  # as tests/benchmarks/run --json has them
        self._raw = {}  # what each job and benchmark wrote, in turn
        if out:
            out.mkdir(parents=True, exist_ok=True)
            (out / "output.txt").write_text("")

    @property
    def holds(self):
        return bool(self._parts) and all(row["ok"] is not False for row in self.rows) and all(row["holds"] for row in self.measured)

    def say(self, text):
        print(text, file=self._stream, flush=True)
        if self._out:
            with open(self._out / "output.txt", "a") as file:
                file.write(f"{text}\n")

    def row(self, part, what, result, is_ok=MEASURED):
        """is_ok: None where it could not be looked at here, MEASURED where nothing could be wrong."""
        is_ok = is_ok if is_ok in (None, MEASURED) else bool(is_ok)
        self.rows.append({"part": part, "what": what, "result": str(result), "ok": is_ok})
        self.say(f"{_WORDS[is_ok]}  {part:<10} {what:<52} {result}")

    def measure(self, rows):
        """A goal that is None is none: the figure stands beside another's. What stands under "raw" is kept apart."""
        rows = [{key: value for key, value in row.items() if key != "raw"} for row in rows]
        self.measured += rows
        for row in rows:
            self.say(json.dumps(row))

    def keep(self, name, raw):
        self._raw.setdefault(name, []).append(raw)

    def end_part(self, part, began):
        self._parts[part] = time.monotonic() - began
        self.say(f"      {part} took {self._parts[part]:.1f} s")

    def save(self, logs):
        if not self._out:
            return
        results = {"checks": self.rows, "measured": self.measured, "seconds": self._parts}
        (self._out / "results.json").write_text(json.dumps(results, indent=1))
        (self._out / "raw.json").write_text(json.dumps(self._raw))
        with open(self._out / "logs.txt", "w") as file:
            for log in logs:
                file.write(f"===== {log.name}\n{log.read_text(errors='replace')[-LOG_CHARACTERS_MAX:]}\n")

    def end(self):
        """The table, and below it what went wrong."""
        lines = [("name", "ratio", "goal", "")]
        for part in self._parts:
            results = [row["ok"] for row in self.rows if row["part"] == part]
            skipped, measured = results.count(None), results.count(MEASURED)
            what = f"{results.count(True)} of {len(results) - skipped - measured} right" + f", {skipped} skipped" * bool(skipped)
            lines.append((part, "", "", f"{what}, {self._parts[part]:.0f} s"))
        lines += [_line(row) for row in self.measured]
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        self.say("")
        for line in lines:
            self.say("  ".join(cell.ljust(width) for cell, width in zip(line, widths)) + f"  {line[3]}")
        for row in self.rows:
            if row["ok"] is False:
                self.say(f"FAIL  {row['part']}: {row['what']}")


def _line(row):
    if row["goal"] is None:
        return row["name"], f"{row['value']:.3f}", "", "measured"
    sign = "≤" if row["better"] == "lower" else "≥"
    return row["name"], f"{row['value']:.3f}", f"{sign} {row['goal']}", "holds" if row["holds"] else "MISSED"
