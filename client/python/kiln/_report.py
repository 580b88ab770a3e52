"""Counts what Kiln does for this process."""

import dataclasses
import functools
import threading
from dataclasses import dataclass, field
from typing import Dict

from kiln import _process


@dataclass
class Report:
    """Counts since the process started, or since it was forked. As text: what matters of them, in a few words.

    hits: kernels found, by tier ("hot", "memory", "disk"; "own": by Triton's key, before lowering).
    joined: kernels that another caller was compiling. compiled: kernels that the daemon compiled for this process.
    missed_after_warm: of compiled, those for which the job had been warmed.
    local: kernels that Triton compiled here, by reason. refused: kernels that were not stored, with KILN_MODE=require.
    seconds_waited: for the daemon's answers, all threads together. seconds_saved: the time of the compiles that hits and joins
    spared, less the wait for them; negative if the answers took longer.
    builds_spared: libraries that the C compiler did not have to build.
    timings_found: configurations that Triton's Autotuner did not have to measure.
    """
    hits: Dict[str, int] = field(default_factory=dict)
    joined: int = 0
    compiled: int = 0
    local: Dict[str, int] = field(default_factory=dict)
    seconds_waited: float = 0.0
    seconds_saved: float = 0.0
    builds_spared: int = 0
    refused: int = 0
    timings_found: int = 0
    missed_after_warm: int = 0

    def __str__(self) -> str:
        found, here = sum(self.hits.values()) + self.joined, sum(self.local.values())
        count = found + self.compiled + here + self.refused
        missed = f" ({self.missed_after_warm} missed after a warm: kiln why --job)" if self.missed_after_warm else ""
        counts = {"found": found, f"compiled{missed}": self.compiled, f"compiled by Triton ({self._why_here()})": here, "refused": self.refused}
        parts = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
        timings = f"; {self.timings_found} timing{'' if self.timings_found == 1 else 's'} found" if self.timings_found else ""
        saved = round(self.seconds_saved, 1) + 0.0  # no "-0.0"
        return f"{count} kernel{'' if count == 1 else 's'}{f': {parts}' if parts else ''}{timings}; {abs(saved):.1f} s {'lost' if saved < 0 else 'saved'}"

    def _why_here(self) -> str:
        """The most frequent reason."""
        reasons = sorted(self.local, key=lambda reason: self.local[reason])
        return "".join(reasons[-1:]) + ("" if len(reasons) < 2 else ", and others")


class Counters:
    """Thread-safe."""

    def __init__(self) -> None:
        self.reset_after_fork()
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may compile while its thread is in here
        self._report = Report()

    def answered(self, outcome: str, tier: str, waited_s: float, compile_s: float, missed_after_warm: bool = False) -> None:
        with self._lock:
            done = self._report
            done.seconds_waited += waited_s
            if outcome == "compiled":
                done.compiled += 1
                done.missed_after_warm += missed_after_warm
                return
            done.seconds_saved += compile_s - waited_s
            if outcome == "joined":
                done.joined += 1
            else:
                done.hits[tier] = done.hits.get(tier, 0) + 1

    def compiled_here(self, reason: str, waited_s: float = 0.0) -> None:
        with self._lock:
            self._report.local[reason] = self._report.local.get(reason, 0) + 1
            self._report.seconds_waited += waited_s

    def add(self, waited_s: float = 0.0, *, refused: int = 0, builds_spared: int = 0, timings_found: int = 0) -> None:
        """waited_s: also for an answer that was of no use."""
        with self._lock:
            self._report.seconds_waited += waited_s
            self._report.refused += refused
            self._report.builds_spared += builds_spared
            self._report.timings_found += timings_found

    def snapshot(self) -> Report:
        with self._lock:
            now = self._report
            return dataclasses.replace(now, hits=dict(now.hits), local=dict(now.local))


@functools.lru_cache(maxsize=None)
def counters() -> Counters:
    """The counters of this process."""
    return Counters()


def report() -> Report:
    """What Kiln has done for this process through Triton so far."""
    return counters().snapshot()
