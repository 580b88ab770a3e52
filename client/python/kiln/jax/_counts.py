"""Counts what kiln.jax does in this process."""

import threading
from dataclasses import dataclass, field, replace
from typing import Dict, List

from kiln._report import Report, report as compiles_report


@dataclass
class JaxReport:
    """calls: custom calls in programs that were lowered, by target. decisions: one line for each kernel and way to run it, with the
    target and why. compiles: what Kiln has done in the whole process. tuned: one line for each tuning that has measured."""
    calls: Dict[str, int] = field(default_factory=dict)
    decisions: List[str] = field(default_factory=list)
    tuned: List[str] = field(default_factory=list)
    compiles: Report = field(default_factory=Report)

    def __str__(self) -> str:
        calls = ", ".join(f"{count} by {name}" for name, count in self.calls.items())
        return "\n".join([f"{sum(self.calls.values())} calls{': ' if calls else ''}{calls}; {self.compiles}", *self.decisions, *self.tuned])


_DECISIONS_MAX = 1000
_lock = threading.Lock()
_report = JaxReport()


def note(target: str, line: str) -> None:
    """A call was lowered for that target. line: says why."""
    with _lock:
        _report.calls[target] = _report.calls.get(target, 0) + 1
        if line not in _report.decisions and len(_report.decisions) < _DECISIONS_MAX:
            _report.decisions.append(line)


def note_tuned(line: str) -> None:
    with _lock:
        if len(_report.tuned) < _DECISIONS_MAX:
            _report.tuned.append(line)


def report() -> JaxReport:
    """What was done so far in this process, since it started."""
    with _lock:
        return replace(_report, calls=dict(_report.calls), decisions=list(_report.decisions), tuned=list(_report.tuned),
                       compiles=compiles_report())
