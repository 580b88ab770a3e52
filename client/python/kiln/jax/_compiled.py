"""Compiled kernels: made by Triton's compile(), for which the plug-in asks the daemon, and described for the launch library."""

import functools
import hashlib
import json
import re
import threading
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

from kiln.errors import CacheMissError
from kiln.jax import _architecture
from kiln.jax._descriptors import is_descriptor, passed_types
from kiln.jax._specialization import Specialization

_FUNCTION = re.compile(r"tt\.func public @\w+\((.*)\) attributes")
_ARGUMENT = re.compile(r"(%[\w$.-]+): ")


@dataclass(frozen=True)
class Compiled:
    """name: the entry point's. binary: cubin or HSACO. ptx, ttir: "" where Triton keeps none. parameters: (name, type), in the order of
    passing. metadata: Triton's, by name."""
    name: str
    binary: bytes
    ptx: str
    ttir: str
    parameters: Tuple[Tuple[str, str], ...]
    metadata: Dict[str, Any]

    def number(self, name: str) -> int:
        return int(self.metadata.get(name) or 0)

    @property
    def target(self) -> Any:
        return self.metadata["target"]

    def types_of(self, type_name: str) -> "List[str]":
        """Of what is passed for a parameter: several for a descriptor."""
        return passed_types(type_name, bool(self.metadata.get("tensordesc_meta"))) if is_descriptor(type_name) else [type_name]

    def uses(self, parameter: str) -> bool:
        """False if the kernel certainly does nothing with it."""
        place = [name for name, _ in self.parameters].index(parameter)
        header = _FUNCTION.search(self.ttir)
        names = _ARGUMENT.findall(header[1]) if header else []
        return len(names) != len(self.parameters) or len(re.findall(re.escape(names[place]) + r"\b", self.ttir)) > 1

    @functools.cached_property
    def document(self) -> str:
        """For kiln_launch_artifact_open_bytes."""
        ctas, maps = max(1, self.number("num_ctas")), list(self.metadata.get("tensordesc_meta") or ())
        fields = {
            "name": self.name, "target": f"{self.target.backend}:{self.target.arch}", "shared_bytes": self.number("shared"),
            "num_warps": self.number("num_warps"), "num_ctas": ctas, "warp_size": self.target.warp_size,
            "tensor_memory_columns": self.number("tmem_size"), "cluster_dims": self.metadata.get("cluster_dims") or (ctas, 1, 1),
            "launch_pdl": bool(self.metadata.get("launch_pdl")), "launch_cooperative_grid": bool(self.metadata.get("launch_cooperative_grid")),
            "global_scratch_bytes": self.number("global_scratch_size"), "global_scratch_align": max(1, self.number("global_scratch_align")),
            "profile_scratch_bytes": self.number("profile_scratch_size"), "profile_scratch_align": max(1, self.number("profile_scratch_align")),
            "parameters": [{"name": name, "type": kind} for name, type_name in self.parameters for kind in self.types_of(type_name)],
            "tensor_descriptors": [_tensor_map(one) for one in maps], "hidden_pointers": 2,
            "toolchain_metadata": {"triton_version": self.metadata.get("triton_version"), "tensordesc_meta": maps}
        }
        stage = "cubin" if self.target.backend == "cuda" else "hsaco"
        return json.dumps({"metadata": fields, "stages": [{"stage": stage, "digest": hashlib.sha256(self.binary).hexdigest()}]})


def _tensor_map(told: Dict[str, Any]) -> Dict[str, Any]:
    return {"block_size": list(told["block_size"]), "fp4_padded": bool(told.get("fp4_padded")),
            **{name: int(told[name]) for name in ("swizzle", "elem_size", "elem_type")}}


_lock = threading.Lock()
_kernels: Dict[Tuple[Any, ...], Compiled] = {}


def compiled(wanted: Specialization) -> Compiled:
    """Raises what Triton's compile() raises; ValueError for a binary of another architecture."""
    with _lock:
        known = _kernels.get(wanted.identity)
    if known is None:
        known = _compile(wanted)
        with _lock:
            known = _kernels.setdefault(wanted.identity, known)
    return known


def compiled_together(wanted: "Sequence[Specialization]") -> "List[Any]":
    """For each a Compiled, or the exception that its compile raised. The daemon compiles them side by side; what it does not give is
    compiled here, side by side as well. CacheMissError: that says nothing of the kernel."""
    from concurrent.futures import ThreadPoolExecutor, wait
    from kiln._plugin.autotune import THREADS_MAX, InTurns, work_of
    tried: Dict[Any, Any] = {}
    missing = sorted({one.identity: one for one in wanted if one.identity not in _kernels}.values(),
                     key=lambda one: work_of(one.source.constants.values(), one.options.num_warps), reverse=True)
    if len(missing) > 1:
        with ThreadPoolExecutor(min(len(missing), THREADS_MAX), "kiln-jax") as pool:
            # Not one request for all: lowering holds the interpreter's lock, and the first would wait for the last to be lowered.
            with InTurns(pool) as turns:
                for one in missing:
                    turns.submit(functools.partial(compiled, one))
                wait(turns.begun)
            turns.drop_frames()
            missing = [one for one in missing if one.identity not in _kernels]
            tried.update(zip((one.identity for one in missing), pool.map(_tried, missing)))
    return [tried.get(one.identity) or _tried(one) for one in wanted]


def _tried(wanted: Specialization) -> Any:
    try:
        return compiled(wanted)
    except CacheMissError:
        raise
    except Exception as error:
        return error


def _compile(wanted: Specialization) -> Compiled:
    from kiln.triton import compiled_or_found
    made = compiled_or_found(wanted.source, wanted.target, wanted.options.__dict__)
    metadata, stages = _read(made) if isinstance(made, dict) else (made.metadata._asdict(), made.asm)
    binary = stages["cubin" if metadata["target"].backend == "cuda" else "hsaco"]
    result = Compiled(metadata["name"], bytes(binary), stages.get("ptx", ""), stages.get("ttir", ""), wanted.parameters, metadata)
    _architecture.check(result.name, result.target.arch, stages, result.binary)
    return result


def _read(files: Dict[str, bytes]) -> "Tuple[Dict[str, Any], Dict[str, Any]]":
    """Metadata and stages, of the files as Triton writes and names them."""
    from kiln._plugin.own import encoding
    from triton.backends.compiler import GPUTarget
    contents = {name.rpartition(".")[2]: content for name, content in files.items()}
    metadata = json.loads(contents.pop("json"))
    metadata["target"] = GPUTarget(*(metadata["target"][name] for name in ("backend", "arch", "warp_size")))
    return metadata, {stage: content if stage in ("cubin", "hsaco") else content.decode(encoding()) for stage, content in contents.items()}
