"""Plans of one segment for several targets."""

import contextlib
import ctypes
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

from kiln import _validate, launch
from kiln.errors import InvalidArgumentError
from kiln.graph import _library as c
from kiln.graph.compiling import EachKernel, FailedKernel, Preload, compile_kernels
from kiln.graph.plan import Plan
from kiln.request import CompileRequest
from kiln.sockets import Place

if TYPE_CHECKING:
    from kiln.client import Client
    from kiln.graph.bound import BoundPlan
    from kiln.graph.segment import Segment


class Plans:
    """Made by Segment.plans: a Plan for each target that can have one, by target: `plans["cuda:90"]`. They can be iterated, in the order
    of the targets. refused: why the other targets have none, by target. Thread-safe as a Plan is."""

    def __init__(self, segment: "Segment", targets: Sequence[str], options: Any) -> None:
        count = len(targets)
        names = (ctypes.c_char_p * max(count, 1))(*(_validate.c_text(target, "target") for target in targets))
        handles, reasons = (ctypes.c_void_p * max(count, 1))(), (ctypes.c_char_p * max(count, 1))()
        c.library().call("plans_open", segment._handle, ctypes.byref(options), names, count, handles, reasons)
        self._plans: "Dict[str, Plan]" = {}
        self.refused: "Dict[str, str]" = {}
        for target, handle, reason in zip(targets, handles, reasons):
            if handle:
                self._plans[target] = Plan(segment, target, ctypes.c_void_p(handle))
            else:
                self.refused[target] = c.text_of(reason)

    def __len__(self) -> int:
        return len(self._plans)

    def __iter__(self) -> "Iterator[Plan]":
        return iter(self._plans.values())

    def __getitem__(self, target: str) -> Plan:
        if target in self._plans:
            return self._plans[target]
        why = self.refused.get(target, f"there are plans for {', '.join(self._plans)}")
        raise InvalidArgumentError(f"there is no plan for {target}: {why}")

    def explain(self) -> str:
        """Each plan's explanation, behind a line with its target, and a line for each target that is refused."""
        plans = [f"for {plan.target}\n{plan.explain()}" for plan in self]
        return "".join(plans + [f"not for {target}: {why}\n" for target, why in self.refused.items()])

    def manifest(self) -> "List[CompileRequest]":
        """A request for each kernel of each plan."""
        return [request for plan in self for request in plan.manifest()]

    def write_manifest(self, path: Place) -> None:
        """Writes these requests to one file, as Plan.write_manifest does."""
        _validate.place(path, "path")
        with contextlib.ExitStack() as locks:
            for plan in self:
                locks.enter_context(plan._lock)
            c.library().call("plans_write_manifest", self._handles(), len(self), os.fsencode(path))

    def compile(self, client: "Client", *, each: "Optional[EachKernel]" = None, timeout: Optional[float] = None) -> "List[FailedKernel]":
        """Has the daemon compile the kernels of all plans as one batch, as Plan.compile does for one. A kernel names its target."""
        return compile_kernels(tuple(self), client, each, timeout)

    def preload(self, client: "Client", *, each: "Optional[EachKernel]" = None, timeout: Optional[float] = None) -> Preload:
        """compile() on a thread of its own, as Plan.preload."""
        return Preload(lambda: compile_kernels(tuple(self), client, each, timeout))

    def bind(self, device: Optional[int] = None, *, runtime: "Optional[launch.Runtime]" = None, client: "Optional[Client]" = None) -> "BoundPlan":
        """Plan.bind of the plan for the device's target.

        runtime: None: the driver's usual library, of CUDA where there is a plan for it, otherwise of the first plan's backend. LaunchError:
        NOT_FOUND where no plan is for the device, which the message names.
        """
        plan, runtime = self._plan_for(device, runtime)
        return plan.bind(device, runtime=runtime, client=client)

    def _plan_for(self, device: Optional[int], runtime: "Optional[launch.Runtime]") -> "Tuple[Plan, launch.Runtime]":
        plans = tuple(self)
        if runtime is None:
            backends = [plan.target.split(":")[0] for plan in plans]
            runtime = launch.runtime() if "cuda" in backends else launch.Runtime(backend=backends[0])
        number = ctypes.c_uint32()
        c.library().launch("plans_find", self._handles(), len(plans), runtime._handle, -1 if device is None else device, ctypes.byref(number))
        return plans[number.value], runtime

    def _handles(self) -> "ctypes.Array[ctypes.c_void_p]":
        return (ctypes.c_void_p * len(self))(*(plan._handle.value for plan in self))
