"""The Triton of this Python: what is asked of it, and where it lies."""

import os
import re
import sys

from kiln_triton_worker.failure import Failure
from kiln_triton_worker.libdevice import read_libdevice_in_part

# An option of ours, for Triton's variable of that name.
DISABLE_LINE_INFO = "disable_line_info"
# Where the system keeps libraries and nothing else: whole directories of it may be read.
SYSTEM_LIBRARIES = ("/lib/", "/lib32/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/")


class Toolchain:
    """Everything that is imported of `triton`. Importing happens in the constructor."""

    def __init__(self):
        import triton
        from triton import knobs
        from triton._C import libtriton
        from triton._C.libtriton import get_cache_invalidating_env_vars, ir, llvm
        from triton.backends import backends, compiler
        from triton.backends.compiler import GPUTarget
        from triton.compiler.compiler import make_backend

        self.version = triton.__version__
        self.directory = os.path.dirname(triton.__file__)
        self.library = libtriton.__file__
        # Triton names its backends after vendors, and targets after platforms.
        self.backends = [name for name, probe in (("cuda", 80), ("hip", "gfx942"))
                         if any(entry.compiler.supports_target(GPUTarget(name, probe, 32)) for entry in backends.values())]
        self.ir = ir
        read_libdevice_in_part(os.path.join(self.directory, "backends", "nvidia", "lib", "libdevice.10.bc"), llvm)
        self.knobs = knobs.nvidia
        self.environment = get_cache_invalidating_env_vars
        self._make_target = GPUTarget
        self._make_backend = make_backend
        self._language = [compiler.Language.TRITON] if hasattr(compiler, "Language") else []  # not up to 3.3
        self._per_target = {}

    def hidden_pointers(self):
        """Scratch pointers that a launcher appends: global scratch, since 3.5 profile scratch too."""
        return 2 if version_tuple(self.version) >= (3, 5) else 1

    def target(self, backend, architecture, warp_size=0):
        """(GPUTarget, backend object, options when nothing is asked for), or Failure."""
        key = (backend, architecture)
        if key not in self._per_target:
            self._per_target[key] = self._make(backend, architecture)
        target = self._per_target[key][0]
        if warp_size not in (0, target.warp_size):
            raise Failure("invalid_argument", "options",
                          f"{backend}:{architecture} has warps of {target.warp_size} threads, not {warp_size}")
        return self._per_target[key]

    def _make(self, backend, architecture):
        if backend not in self.backends:
            raise Failure("invalid_argument", "options", f"no backend {backend!r} here; there are {', '.join(self.backends)}")
        if backend == "cuda":
            if not re.fullmatch(r"[0-9]{2,3}", architecture):
                raise Failure("invalid_argument", "options",
                              f"a CUDA architecture is two or three digits, like 90; got {architecture!r}")
            target = self._make_target(backend, int(architecture), 32)
        else:
            if not re.fullmatch(r"gfx[0-9a-f]{3,5}", architecture):
                raise Failure("invalid_argument", "options",
                              f"a HIP architecture is a name like gfx942; got {architecture!r}")
            target = self._make_target(backend, architecture, 64 if len(architecture) == 6 else 32)
        made = self._make_backend(target)
        return target, made, made.parse_options({})

    def stages(self, backend, options):
        """{stage: function of (module, metadata)}, in their order."""
        stages = {}
        backend.add_stages(stages, options, *self._language)
        return stages

    def libraries(self):
        """What a worker may come to read once it is jailed: this Python, what it and Triton are linked with, and the like.

        A library of the system stands for its directory, since what is loaded later lies there too.
        """
        found = {path for path in (*sys.path, self.directory) if os.path.exists(path)}
        with open("/proc/self/maps") as file:
            mapped = {line.split(maxsplit=5)[5].rstrip("\n") for line in file if "/" in line}
        for path in filter(os.path.isfile, mapped):
            folder = os.path.dirname(path)
            found.add(folder if (folder + "/").startswith(SYSTEM_LIBRARIES) else path)
        return sorted(found)


def version_tuple(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def options_object(target, backend, defaults, given):
    """The backend's options object for what the client gave. Failure for whatever is wrong with it.

    Options that name files never come here: the daemon refuses them.
    """
    accepted = {}
    for name, value in given.items():
        if value is None:
            continue
        if name not in defaults.__dict__:
            raise Failure("invalid_argument", "options",
                          f"{target.backend} has no option {name!r}; it has {', '.join(sorted(defaults.__dict__))}")
        accepted[name] = to_tuples(value)
    # What follows from the target can be said, but not changed. Not every version has all of them.
    for name in accepted.keys() & {"arch", "warp_size", "backend_name"}:
        if accepted[name] != getattr(defaults, name):
            raise Failure(
                "invalid_argument", "options", f"option {name} is {accepted[name]!r}, but the target "
                f"{target.backend}:{target.arch} has {getattr(defaults, name)!r}; leave it out")
    try:
        return backend.parse_options(accepted)
    except Exception as error:  # whatever a backend raises, it is about the options
        raise Failure("invalid_argument", "options", error or type(error).__name__) from None


def to_tuples(value):
    return tuple(to_tuples(item) for item in value) if isinstance(value, (list, tuple)) else value
