"""Compiles a plan's kernels, and turns to the next compiler where one fails."""

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Iterator, List, Optional, Sequence, Tuple, Union

from kiln.artifact import Artifact
from kiln.errors import (CompilationError, DeadlineExceededError, FailedPreconditionError, InternalError, InvalidArgumentError, KilnError)

if TYPE_CHECKING:
    from kiln.client import Client
    from kiln.graph.plan import Plan, PlannedKernel

EachKernel = Callable[["PlannedKernel", Artifact], None]
# Another compiler's source may do. Other errors are the daemon's own.
_OF_THE_COMPILER = (CompilationError, FailedPreconditionError, InternalError, InvalidArgumentError)


@dataclass(frozen=True)
class FailedKernel:
    """A compile that failed. is_engines: there was no other compiler, so that the kernel's operations are the engine's. False for a
    variant (`split`): the kernel of the whole range does its work."""
    kernel: "PlannedKernel"
    error: KilnError
    is_engines: bool


def compile_kernels(plans: "Sequence[Plan]", client: "Client", each: Optional[EachKernel], timeout: Optional[float]) -> "List[FailedKernel]":
    """Plan.compile, of several plans as one batch."""
    ends = None if timeout is None else time.monotonic() + timeout
    failures: "List[FailedKernel]" = []
    while pending := [(plan, kernel) for plan in plans for kernel in plan.kernels if plan.artifact(kernel) is None]:
        broken = None
        for (plan, kernel), answer in _answers(client, pending, ends):
            if isinstance(answer, Artifact):
                plan.keep(kernel, answer)
                if each is not None:
                    each(kernel, answer)
            elif isinstance(answer, _OF_THE_COMPILER):
                has_next = plan.use_next_compiler(kernel, answer.message)
                failures.append(FailedKernel(kernel, answer, not has_next and not kernel.split))
            else:
                broken = broken or answer
        if broken is not None:
            raise broken
    return failures


def _answers(client: "Client", pending: "List[Tuple[Plan, PlannedKernel]]",
             ends: Optional[float]) -> "Iterator[Tuple[Tuple[Plan, PlannedKernel], Union[Artifact, KilnError]]]":
    from kiln.graph.plan import request_of
    left = None if ends is None else ends - time.monotonic()
    if left is not None and left <= 0:
        raise DeadlineExceededError("the time for the plan's kernels is over")
    for index, answer in client.compile_many((request_of(kernel) for _, kernel in pending), timeout=left):
        yield pending[index], answer


class Preload:
    """A compile in the background: what Plan.preload gives. Thread-safe."""

    def __init__(self, work: "Callable[[], List[FailedKernel]]") -> None:
        self._work = work
        self._failures: "List[FailedKernel]" = []
        self._error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, name="kiln-preload", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, timeout: Optional[float] = None) -> "List[FailedKernel]":
        """What compile() returns, or its error. timeout: in seconds; DeadlineExceededError where it is not done by then, and goes on."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise DeadlineExceededError("the plan's kernels are not compiled yet")
        if self._error is not None:
            raise self._error
        return self._failures

    def _run(self) -> None:
        try:
            self._failures = self._work()
        except BaseException as error:  # wait() raises it
            self._error = error
