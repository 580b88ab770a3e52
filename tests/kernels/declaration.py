"""How an example kernel says in which shapes it is compiled.

An instance is one compile: a kernel with the types of its parameters, its folded constants and its options. Kernel
modules list theirs in INSTANCES; lower.py and reference.py walk over all of them.
"""

from dataclasses import dataclass, field
from types import MappingProxyType

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx90a", "hip:gfx942", "hip:gfx950")

_NOTHING = MappingProxyType({})


@dataclass(frozen=True)
class Instance:
    """One compile of one kernel.

    parameters: every parameter in the order of the signature. A string is a Triton type ("*fp16", "i32"), with ":16"
    behind it where the value (of a pointer: the address) is divisible by 16. Anything else is the value of a constexpr.

    options: what the launch passes besides the arguments; hip_options replaces entries for AMD targets, whose local
    memory is smaller. needs: the least CUDA architecture; an instance that needs one is compiled for no AMD target.
    """

    name: str
    kernel: object
    parameters: dict
    options: dict = field(default_factory=dict)
    hip_options: dict = field(default_factory=lambda: dict(_NOTHING))
    needs: int = 0

    def lacks(self, target):
        """In words, what a target has not that this needs; None where it is compiled for it."""
        backend, architecture = target.split(":")
        needs = max(self.needs, 80 if backend == "cuda" and "*bf16:16" in self.parameters.values() else 0)
        if not needs or (backend == "cuda" and int(architecture) >= needs):
            return None
        return f"it needs {'bfloat16' if needs == 80 else 'clusters or warp specialization'}, of cuda:{needs} or later"

    def supports(self, target):
        return self.lacks(target) is None

    def signature(self):
        return {
            name: value.removesuffix(":16") if isinstance(value, str) else "constexpr"
            for name, value in self.parameters.items()
        }

    def constexprs(self):
        return {name: value for name, value in self.parameters.items() if not isinstance(value, str)}

    def attributes(self, backend):
        """What the compiler may rely on, by the parameter's position, in the form that Triton's own launch gives it."""
        attributes = {}
        for position, value in enumerate(self.parameters.values()):
            if not isinstance(value, str) or not value.endswith(":16"):
                continue
            attributes[(position,)] = [["tt.divisibility", 16]]
            # On AMD a launch says so of every tensor below 2 GiB; it decides whether buffer instructions are used.
            if backend == "hip" and value.startswith("*"):
                attributes[(position,)].append(["tt.pointer_range", 32])
        return attributes

    def options_for(self, backend):
        return {**self.options, **(self.hip_options if backend == "hip" else {})}
