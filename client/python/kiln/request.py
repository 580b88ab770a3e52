"""What to compile."""

import os
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Sequence, Union

from kiln._validate import job_of
from kiln.key import Parameter

# Words and their numbers in protos/kiln/v1.
KINDS: "Dict[str, Any]" = {"ttir": 1, "ttgir": 4, "cuda": 2, "ptx": 3, "opencl": 5}
CACHE_POLICIES: "Dict[str, Any]" = {"use": 1, "refresh": 2, "only-if-cached": 3}
PRIORITIES: "Dict[str, Any]" = {"waiting-rank": 1, "autotune": 2, "warm": 3, "background": 4}


@dataclass(frozen=True)
class CompileRequest:
    """One kernel to compile. The daemon checks it; what is wrong comes back as InvalidArgumentError.

    source: the text: Triton IR, CUDA C++, PTX or OpenCL C. At most 16 MiB.
    target: "cuda:90", "hip:gfx942", "spirv:1.2"; with a warp size "hip:gfx942:64".
    kind: "ttir", "ttgir", "cuda" (CUDA C++), "ptx" or "opencl" (OpenCL C).
    name: for people; it decides nothing.
    options: of the compiler's backend, by name, launch parameters (num_warps, num_stages, ...) among them. A value is
        a bool, an int of 64 bits, a finite float, a str, or a tuple or list of such; None means absent.
    parameters: of the kernel, folded ones included; empty: not said. They are in the key.
    headers: of CUDA C++ and OpenCL C, what the source may include besides the toolchain's headers: texts by name.
    toolchain: "triton==3.6.0", 64 hex digits of a fingerprint, or "" for the daemon's choice.
    ptxas: assembles PTX, Triton's too: "ptxas==13.0.88", the 64 hex digits of the file's SHA-256, the file's path
        (a str with a '/', or an os.PathLike), whose bytes count, or "" for the toolchain's own.
    stages: those whose content is wanted, such as ("ptx", "cubin"); empty: the final binary.
    cache: "use", "refresh" (compile even on a hit) or "only-if-cached" (NotFoundError on a miss, but CompilationError for
        what the daemon knows not to compile).
    priority: "waiting-rank", "autotune", "warm" or "background".
    job: `kiln stats` and `kiln ls --job` show what was done for it, and jobs of one user take turns. Default: $KILN_JOB, or $SLURM_JOB_ID.
    """
    source: Union[str, bytes]
    target: str
    kind: str = "ttir"
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    parameters: Sequence[Parameter] = ()
    headers: Mapping[str, Union[str, bytes]] = field(default_factory=dict)
    toolchain: str = ""
    ptxas: "Union[str, os.PathLike[str]]" = ""
    stages: Sequence[str] = ()
    cache: str = "use"
    priority: str = "waiting-rank"
    job: str = field(default_factory=job_of)
