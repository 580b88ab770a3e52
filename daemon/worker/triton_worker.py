"""Compiles Triton IR for kilnd, inside one toolchain's own Python.

Runs with nothing but the standard library and `triton`. Two modes:

  triton_worker.py --describe
      Prints one JSON object that says what this toolchain is and can do, and exits.

  triton_worker.py --zygote --control-fd N --parent PID
      Imports triton, warms it, and then forks one worker process per request of the daemon.

What this file adds to a request and decides the binary's bytes (SOURCE_STEM, do_not_randomize_programs, dump_ptxas_log) is part of
a toolchain's identity: whoever changes it raises kTritonCall (daemon/toolchain/toolchain_files.cc).

daemon/worker/protocol.md says what goes over the two sockets. How processes live and die:

* The zygote has one thread and never touches a GPU driver: both would break in a forked child. It checks this itself.
* Each worker leads its own process group, which its assembler joins, so one kill(-pid) ends all of it.
* The zygote reaps a worker only when the daemon asks, and the daemon asks only after its last kill: until then the pid and
  the group stay taken, so a late kill cannot hit a stranger. Being a child subreaper, it inherits orphans of its workers
  (an assembler, or whatever left the group) and ends them at the same moment.
* If the daemon dies, the control socket closes and the kernel sends SIGTERM: the zygote kills every group and exits.
  If the zygote dies, the kernel kills the workers, and the daemon, a subreaper too, cleans up after them.
"""

import argparse
import contextlib
import ctypes
import errno
import gc
import hashlib
import io
import json
import os
import re
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import traceback

PROTOCOL = 1

# Frames on a job socket: magic, version, type, header bytes, id, payload bytes.
FRAME = struct.Struct("<4sHHIIQ")
FRAME_MAGIC = b"KILN"
FRAME_COMPILE = 1
FRAME_RESULT = 2
HEADER_BYTES_MAX = 2 << 20
PAYLOAD_BYTES_MAX = 256 << 20
CONTROL_BYTES_MAX = 64 << 10
OUTPUT_BYTES_MAX = 64 << 10
MESSAGE_CHARS_MAX = 1000
NAME_BYTES_MAX = 64 << 10
PARAMETERS_MAX = 4096

# The source is parsed under this relative name, its kind behind it, because the parser takes the name as the location of a module
# that has none: with it, equal text gives equal binaries in every directory.
SOURCE_STEM = "kernel."

# A kernel that every Triton since 3.5 parses, for warming up and for trying out architectures.
WARM_KERNEL = """module {
  tt.func public @warm(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %a = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %b = tt.addptr %a, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %c = tt.load %b : tensor<128x!tt.ptr<f32>>
    %d = arith.addf %c, %c : tensor<128xf32>
    %e = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %f = tt.addptr %e, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    tt.store %f, %d : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""
WARM_TARGETS = (("cuda", "90"), ("cuda", "100"), ("hip", "gfx942"))

# Architectures worth trying. A toolchain's description lists those for which WARM_KERNEL compiles.
CANDIDATE_ARCHITECTURES = {
    "cuda": ("75", "80", "86", "87", "89", "90", "100", "101", "103", "110", "120", "121"),
    "hip": ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151",
            "gfx1200", "gfx1201", "gfx1250"),
}

# The most shared memory that one block may have, in bytes. Triton asks the device when it loads a kernel; a daemon has no
# device, so the limits stand here.
# CUDA: "Maximum amount of shared memory per thread block", CUDA C++ Programming Guide, table of technical specifications
# per compute capability. HIP: LDS per workgroup, the AMD ISA guides of CDNA2, CDNA3, CDNA4 and RDNA.
SHARED_BYTES_MAX = {
    "cuda": {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 101: 227, 103: 227, 110: 227, 120: 99, 121: 99},
    "hip": {"gfx950": 160, "gfx1250": 320},
}
SHARED_KIB_DEFAULT = {"hip": 64}
THREADS_PER_BLOCK_MAX = 1024
# Columns of tensor memory on sm_100 and its kin; the number that Triton itself checks at load time.
TENSOR_MEMORY_COLUMNS_MAX = 512

TAINTED = "A signal was caught while processing the MLIR module"

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
# System calls without a function in the C library; these numbers are the same on every architecture.
SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_ADD_RULE, SYS_LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_RULE_PATH_BENEATH = 1
LANDLOCK_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # of a directory's rights, those that a file can have
CAPABILITY_VERSION_3 = 0x20080522
SECBIT_NOROOT = 1

# Where the system keeps libraries and nothing else: whole directories of it may be read.
SYSTEM_LIBRARIES = ("/lib/", "/lib32/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/")
# Disk space, processes and descriptors: the machine's trouble, and not the source's. Memory may be either's.
MACHINE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
ADDR_NO_RANDOMIZE = 0x0040000
PERSONALITY_ASK = 0xFFFFFFFF
MSG_CMSG_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0x40000000)


class Failure(Exception):
    """The source does not compile: what, where and whose fault.

    `code` is invalid_argument or resource_exhausted; internal where a program gave out before anything was decided;
    unavailable where the machine lacks something that is not the source's business. `deterministic` says that trying again
    cannot help, and is True of the first two alone.
    """

    def __init__(self, code, stage, message, line=0, column=0, output="", deterministic=True):
        super().__init__(message)
        self.code = code
        self.stage = stage
        self.line = line
        self.column = column
        self.output = output
        self.deterministic = deterministic

    def to_json(self):
        return {
            "code": self.code,
            "stage": self.stage,
            "message": one_line(str(self)),
            "line": self.line,
            "column": self.column,
            "output": self.output.encode("utf-8", "replace")[-OUTPUT_BYTES_MAX:].decode("utf-8", "ignore"),
            "deterministic": self.deterministic,
        }


def one_line(text):
    text = " ".join(str(text).split())
    return text if len(text) <= MESSAGE_CHARS_MAX else text[:MESSAGE_CHARS_MAX] + " …"


def shortened(name):
    return repr(name if len(name) <= 80 else name[:80] + "…")


def to_tuples(value):
    return tuple(to_tuples(item) for item in value) if isinstance(value, (list, tuple)) else value


# --- The toolchain ---------------------------------------------------------------------------------------------------


class Compiler:
    """Everything that needs `triton`. Importing happens in the constructor."""

    def __init__(self):
        import triton
        from triton import knobs
        from triton._C.libtriton import get_cache_invalidating_env_vars, ir
        from triton.backends import backends
        from triton.backends.compiler import GPUTarget
        from triton.compiler.compiler import make_backend

        self.version = triton.__version__
        self.directory = os.path.dirname(triton.__file__)
        # Triton names its backends after vendors, and targets after platforms.
        self.backends = [name for name, probe in (("cuda", 80), ("hip", "gfx942"))
                         if any(entry.compiler.supports_target(GPUTarget(name, probe, 32)) for entry in backends.values())]
        self._ir = ir
        self._make_target = GPUTarget
        self._make_backend = make_backend
        self._env_vars = get_cache_invalidating_env_vars
        self._per_target = {}
        self._tool_versions = {}
        self._knobs = knobs.nvidia
        self._ptxas = None
        # ptxas -v says how many registers a kernel takes; with this knob Triton prints it.
        if hasattr(knobs.nvidia, "dump_ptxas_log"):
            knobs.nvidia.dump_ptxas_log = True

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

    def options(self, target, backend, defaults, given):
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

    def use_ptxas(self, named):
        """Has Triton assemble with the ptxas that a request names; None: with its own. All stays as it was where it does not."""
        if named == self._ptxas:
            return
        if named is not None:
            check_digest(named["path"], named["sha256"])
        self._name_ptxas(named)
        # Where it does not find the program it falls back to its own without a word.
        if named is not None and not self._takes_ptxas(named["path"]):
            self._name_ptxas(self._ptxas)
            raise Failure("internal", "cubin", f"Triton does not take {named['path']} as its ptxas", deterministic=False)
        self._ptxas = named

    def _takes_ptxas(self, path):
        try:
            tools = [getattr(self._knobs, tool) for tool in ("ptxas", "ptxas_blackwell") if hasattr(self._knobs, tool)]
        except Exception:  # of starting it, to ask for its version
            return False
        return all(tool.path == path for tool in tools)

    def _name_ptxas(self, named):
        for variable in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
            if named is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = named["path"]
        # Triton remembers what it learned of the one before: the PTX version that it takes, for one.
        module = sys.modules["triton.backends.nvidia.compiler"]
        for value in (*vars(module).values(), *vars(module.CUDABackend).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()

    def assembler(self, backend, architecture):
        """What turns assembly into a binary, for the record."""
        if backend != "cuda":
            return "lld (in libtriton)"
        if self._ptxas is not None:
            return f"ptxas {self._ptxas['version']}"
        tool = self._own_ptxas(int(architecture))
        return f"{tool} {self.tool_version(tool)}"

    def _own_ptxas(self, architecture):
        """Which of its two programs this Triton assembles with; from 3.9 on it is ptxas-blackwell for Hopper, too."""
        with contextlib.suppress(AttributeError, TypeError):  # before 3.6
            return os.path.basename(sys.modules["triton.backends.nvidia.compiler"].get_ptxas(architecture).path)
        return "ptxas-blackwell" if architecture >= 100 and os.path.exists(self._tool_path("ptxas-blackwell")) else "ptxas"

    def _tool_path(self, tool):
        return os.path.join(self.directory, "backends", "nvidia", "bin", tool)

    def programs(self):
        """What a worker starts, and what the kernel loads those with."""
        tools = [os.path.realpath(tool) for tool in (self._tool_path("ptxas"), self._tool_path("ptxas-blackwell"))]
        tools = [tool for tool in tools if os.access(tool, os.X_OK)]
        return sorted({*tools, *filter(None, map(program_loader, tools))})

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

    def tool_version(self, tool):
        """"12.8.93", or "" where the toolchain has no such tool."""
        if tool not in self._tool_versions:
            try:
                text = subprocess.run([self._tool_path(tool), "--version"], capture_output=True, text=True, check=True)
                found = re.search(r"\bV(\d+(?:\.\d+)+)", text.stdout)
                self._tool_versions[tool] = found.group(1) if found else "of unknown version"
            except (OSError, subprocess.CalledProcessError):
                self._tool_versions[tool] = ""
        return self._tool_versions[tool]

    # --- Compiling ---------------------------------------------------------------------------------------------------

    def compile(self, request, source):
        """Compiles `source` (bytes) in the current directory.

        Returns (list of (stage, bytes, micros), description of the kernel). Raises Failure. Does what triton.compile does with
        a file of IR, without its cache: parse, options, then the backend's stages after `ttir`.
        """
        output = Output()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            target, backend, defaults = self.target(request["backend"], request["architecture"], request["warp_size"])
            if target.backend == "cuda":
                self.use_ptxas(request.get("ptxas"))
            kind = request["kind"]
            started = time.perf_counter_ns()
            text = decode(source)
            with open(SOURCE_STEM + kind, "wb") as file:
                file.write(source)
            context, module, name, signature = self._parse(backend, kind, text, output)
            # ptxas looks at the files that the PTX names and writes their time into the line table. Equal text must give equal
            # binaries at any time, and for a file that is not there it writes zero.
            os.unlink(SOURCE_STEM + kind)
            given = request["options"]
            if kind == "ttgir":
                given = {**given, **options_of_ttgir(module, target, given)}
            options = self.options(target, backend, defaults, given)
            metadata = {"target": target, **options.__dict__, **self._env_vars(), "triton_version": self.version}
            if kind == "ttgir" and hasattr(module, "get_tensordesc_metadata"):
                metadata["tensordesc_meta"] = module.get_tensordesc_metadata()  # otherwise the ttgir stage adds it
            stages = {}
            add_stages(backend, stages, options)
            done = [("parse", None, elapsed_micros(started))]
            for stage, run in list(stages.items())[list(stages).index(kind) + 1:]:
                started = time.perf_counter_ns()
                try:
                    module = run(module, metadata)
                    done.append((stage, to_bytes(module), elapsed_micros(started)))
                except Exception as error:
                    raise classify(error, stage, output) from None
                if stage in ("cubin", "hsaco") and not is_whole_elf(done[-1][1]):
                    # Where the disk is full ptxas ends well all the same, and leaves what there was room for.
                    raise Failure("unavailable", stage, "the assembler ended well, but its output is cut off: is the disk full that "
                                  "holds the workers' directories?", deterministic=False)
                if stage == "llir":
                    check_fits(target, metadata)
            del context  # every module of it is gone now
        kernel = self._kernel(target, metadata, done, printed.getvalue())
        kernel["parameters"] = parameters(text, name, signature, request.get("parameters"))
        kernel["assembler"] = self.assembler(target.backend, request["architecture"])
        kernel["toolchain_metadata"] = json.dumps(metadata, default=vars)
        return done, kernel

    def _parse(self, backend, kind, text, output):
        context = self._ir.context()
        self._ir.load_dialects(context)
        backend.load_dialects(context)
        try:
            module = self._ir.parse_mlir_module(SOURCE_STEM + kind, context)
        except Exception as error:
            failure = classify(error, "parse", output)
            failure.args = (str(failure) + parse_advice(text, self.version),)
            raise failure from None
        module.context = context
        is_ttgir = module.get_int_attr("ttg.num-warps") is not None
        if is_ttgir and kind != "ttgir":
            raise Failure("invalid_argument", "parse", "this is TTGIR, a later stage; say that its kind is ttgir, or send the module "
                          "as it is after Triton's ttir stage")
        if not is_ttgir and kind == "ttgir":
            raise Failure("invalid_argument", "parse", "this is no TTGIR: the module has no ttg.num-warps; is its kind ttir?")
        names = entry_functions(module)
        if len(names) != 1:
            what = (f"{len(names)} ({', '.join(names[:8])}); make the others private" if names else
                    "none; send one with the kernel's tt.func public")
            raise Failure("invalid_argument", "parse", f"a kernel has exactly one public function, this module has {what}")
        if not module.has_function(names[0]):
            raise Failure("invalid_argument", "parse",
                          f"the public function {shortened(names[0])} stands in a module within the module; move it to the top")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", names[0]):
            # Triton looks for a name of this form in its own output; others abort inside LLVM.
            raise Failure("invalid_argument", "parse",
                          f"the public function's name is not an identifier: {shortened(names[0])}; rename it to letters, digits "
                          "and underscores")
        if len(names[0]) > NAME_BYTES_MAX:
            raise Failure("invalid_argument", "parse", f"the public function's name has {len(names[0])} letters; a kernel's name "
                          f"has at most {NAME_BYTES_MAX}")
        signature = module.get_function_signature(module.get_function(names[0]))
        if len(signature) > PARAMETERS_MAX:
            raise Failure("invalid_argument", "parse",
                          f"the kernel has {len(signature)} parameters; at most {PARAMETERS_MAX} are possible")
        return context, module, names[0], signature

    def _kernel(self, target, metadata, done, printed):
        texts = {stage: content for stage, content, _ in done}
        name = metadata["name"]
        registers, spill_bytes = (ptxas_usage(printed, name) if target.backend == "cuda" else amdgcn_usage(
            texts.get("amdgcn", b"").decode("utf-8", "replace")))
        return {
            "name": name,
            "shared_bytes": metadata.get("shared") or 0,
            "num_warps": metadata["num_warps"],
            "num_ctas": metadata.get("num_ctas") or 1,
            "warp_size": target.warp_size,
            "global_scratch_bytes": metadata.get("global_scratch_size") or 0,
            "global_scratch_align": metadata.get("global_scratch_align") or 1,
            "profile_scratch_bytes": metadata.get("profile_scratch_size") or 0,
            "profile_scratch_align": metadata.get("profile_scratch_align") or 1,
            "tensor_memory_columns": metadata.get("tmem_size") or 0,
            "cluster_dims": list(metadata.get("cluster_dims") or (metadata.get("num_ctas") or 1, 1, 1)),
            "launch_pdl": bool(metadata.get("launch_pdl")),
            "launch_cooperative_grid": bool(metadata.get("launch_cooperative_grid")),
            "registers": registers,
            "spill_bytes": spill_bytes,
            "tensor_descriptors": [descriptor(entry) for entry in metadata.get("tensordesc_meta") or ()],
            "hidden_pointers": self.hidden_pointers(),
        }


def check_digest(path, expected):
    """Failure where the file is no longer the one whose digest the daemon took, which is in the key."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise Failure("unavailable", "cubin", f"{path} cannot be read: {error.strerror}", deterministic=False) from None
    if digest.hexdigest() != expected:
        raise Failure("unavailable", "cubin", f"{path} is no longer the file that it was when the daemon read it: it reads it again",
                      deterministic=False)


def program_loader(program):
    """What an ELF program names as its interpreter, such as /lib64/ld-linux-x86-64.so.2; "" where it names none."""
    with open(program, "rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            return ""
        table, size, count = *struct.unpack_from("<Q", header, 32), *struct.unpack_from("<HH", header, 54)
        for index in range(count):
            file.seek(table + index * size)
            entry = file.read(size)
            kind, = struct.unpack_from("<I", entry)
            if kind == 3:  # PT_INTERP
                offset, length = struct.unpack_from("<Q16xQ", entry, 8)
                file.seek(offset)
                return file.read(length).rstrip(b"\0").decode()
    return ""


def version_tuple(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def elapsed_micros(started_ns):
    return (time.perf_counter_ns() - started_ns) // 1000


def to_bytes(stage_output):
    return bytes(stage_output) if isinstance(stage_output, (bytes, bytearray)) else str(stage_output).encode()


def module_attribute(module, name):
    """A string attribute of the module itself; None where it has none."""
    found = []

    def visit(operation):
        if operation.get_name() == "builtin.module":
            found.append(operation.get_str_attr(name))

    module.walk(visit)
    return found[0] if found else None


def options_of_ttgir(module, target, given):
    """What a TTGIR module was made for, as options. Failure where the request says something else."""
    made_for = module_attribute(module, "ttg.target")
    if made_for not in (None, f"{target.backend}:{target.arch}"):
        raise Failure("invalid_argument", "parse", f"the module was made for {made_for}, not for {target.backend}:{target.arch}")
    options = {}
    for name, attribute in (("num_warps", "ttg.num-warps"), ("num_ctas", "ttg.num-ctas")):
        value = module.get_int_attr(attribute)
        if value is not None and given.get(name, value) != value:
            raise Failure("invalid_argument", "options", f"{name} is {given[name]}, but the module was made with {value}; leave it out")
        if value is not None:
            options[name] = value
    return options


def add_stages(backend, stages, options):
    try:
        from triton.backends.compiler import Language
    except ImportError:  # up to 3.3
        backend.add_stages(stages, options)
    else:
        backend.add_stages(stages, options, Language.TRITON)


def decode(source):
    if not source.strip():
        raise Failure("invalid_argument", "parse", "the source is empty; send the kernel's text")
    if b"\0" in source:
        before = source[:source.index(b"\0")]
        raise Failure("invalid_argument", "parse", "the source contains a NUL byte; send text, not a binary",
                      before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
    try:
        return source.decode()
    except UnicodeDecodeError as error:
        before = source[:error.start]
        raise Failure("invalid_argument", "parse", f"the source is not UTF-8, as text must be: byte {source[error.start]:#04x}",
                      before.count(b"\n") + 1, len(before) - before.rfind(b"\n")) from None


def entry_functions(module):
    """Names of the public functions. A function without a visibility is public."""
    names = []

    def visit(operation):
        if operation.get_name() == "tt.func" and operation.get_str_attr("sym_visibility") in (None, "public"):
            names.append(operation.get_str_attr("sym_name"))

    module.walk(visit)
    return names


def check_fits(target, metadata):
    """What Triton checks when it loads a kernel, as far as it can be told without a device."""
    table = SHARED_BYTES_MAX[target.backend]
    kib = table.get(target.arch, SHARED_KIB_DEFAULT.get(target.backend))
    needed = metadata.get("shared") or 0
    if kib is not None and needed > kib << 10:
        raise Failure("resource_exhausted", "llir",
                      f"out of shared memory: the kernel needs {needed} bytes per block, {target.backend}:{target.arch} "
                      f"has {kib << 10}; smaller blocks or fewer num_stages may help")
    columns = metadata.get("tmem_size") or 0
    if columns > TENSOR_MEMORY_COLUMNS_MAX:
        raise Failure("resource_exhausted", "llir", f"out of tensor memory: the kernel needs {columns} columns, there are "
                      f"{TENSOR_MEMORY_COLUMNS_MAX}; smaller blocks may help")
    threads = metadata["num_warps"] * target.warp_size
    if threads > THREADS_PER_BLOCK_MAX:
        raise Failure("resource_exhausted", "llir", f"too many threads: {metadata['num_warps']} warps are {threads} threads "
                      f"per block, the hardware takes {THREADS_PER_BLOCK_MAX}; use fewer num_warps")


def descriptor(entry):
    return {
        "swizzle": entry.get("swizzle") or 0,
        "elem_size": entry.get("elem_size") or 0,
        "elem_type": entry.get("elem_type") or 0,
        "block_size": list(entry.get("block_size") or ()),
        "fp4_padded": bool(entry.get("fp4_padded")),
    }


def ptxas_usage(log, name):
    """(registers, bytes of spill stores) of the entry function, out of `ptxas -v`; None where it does not say."""
    _, found, log = log.partition(f"Compiling entry function '{name}'")
    if not found:
        return None, None
    registers = re.search(r"Used (\d+) registers", log)
    spills = re.search(rf"Function properties for {re.escape(name)}\s+.*?(\d+) bytes spill stores", log)
    return registers and int(registers.group(1)), spills and int(spills.group(1))


def amdgcn_usage(text):
    """The same out of the code object's metadata, where a spilled register is 4 bytes per thread."""
    registers = re.search(r"\.vgpr_count:\s+(\d+)", text)
    spills = re.search(r"\.vgpr_spill_count:\s+(\d+)", text)
    return registers and int(registers.group(1)), spills and 4 * int(spills.group(1))


def parameters(text, function, signature, given):
    """[[name, type]] in the order of passing.

    Names and Triton's own spelling of types come from the client's specialization where it fits the IR, otherwise the names from
    the IR's SSA values, which Triton prints as the author's names when the module has locations.
    """
    if given is not None and len(given) == len(signature):
        return given
    names = argument_names(text, function)
    if len(names) != len(signature):
        names = [""] * len(signature)
    return [[name, kind] for name, kind in zip(names, signature)]


def argument_names(text, function):
    start = re.search(rf"tt\.func\s+(?:public\s+)?@\"?{re.escape(function)}\"?\s*\(", text)
    if not start:
        return []
    names, depth, position = [], 1, start.end()
    token = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|%([\w$.-]+)\s*:')
    while depth:
        found = token.search(text, position)
        if not found:
            return []
        position = found.end()
        depth += {"(": 1, ")": -1}.get(found.group(), 0)
        if found.group(1):
            names.append("" if re.fullmatch(r"arg\d+|\d+", found.group(1)) else found.group(1))
    return names


# --- What went wrong -------------------------------------------------------------------------------------------------


class Output:
    """What was written to fd 2 since construction. C++ code writes there, so it is read back from the file."""

    def __init__(self):
        try:
            self._start = os.lseek(2, 0, os.SEEK_CUR)
        except OSError:  # a pipe or a terminal
            self._start = None

    def text(self):
        if self._start is None:
            return ""
        end = os.lseek(2, 0, os.SEEK_CUR)
        begin = max(self._start, end - (1 << 20))
        return os.pread(2, end - begin, begin).decode("utf-8", "replace")


DIAGNOSTIC = re.compile(r'^(?:loc\()?"?([^"\n]*?)"?:(\d+):(\d+)\)?: error: (.*)$', re.MULTILINE)
# What the parser says of words that another Triton's dialects have and this one's have not.
PTX_VERSION = re.compile(r"^\s*\.version\s+\d", re.MULTILINE)
# LLVM gave up on what the source asks of it, and would have ended the process if a pass had not caught that.
LLVM_ERROR = re.compile(r"^LLVM ERROR: .*$", re.MULTILINE)
BARE_DIAGNOSTIC = re.compile(r"^(?:<unknown>:0: )?error: (.*)$", re.MULTILINE)
ASSERTION = re.compile(r"Assertion `.*' failed")
# It calls itself by the name of its file.
PTXAS_ITSELF = r"(?:\S*/)?ptxas[\w.-]*"
OUT_OF_RESOURCES = re.compile(
    r"uses too much|[Rr]egister allocation failed|[Ii]nsufficient registers|[Tt]oo many registers|too many resources|"
    r"exceeds? (?:the )?limit|local memory .*exceeds|out of resource")
# The machine gave out and nothing was decided: of memory, which the source may have taken, or of files, which it has no part in.
OUT_OF_MEMORY = re.compile(r"[Mm]emory allocation|[Oo]ut of memory")
OUT_OF_FILES = re.compile(r"[Cc]ould not (?:open|be opened|write)|[Cc]annot open|No space left")


def classify(error, stage, output):
    """The Failure that an exception out of `stage` amounts to."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, FileNotFoundError) and stage == "cubin" and str(error.filename).startswith(os.getcwd()):
        # Of `ptx_options`, some have ptxas print something and end well.
        return Failure("invalid_argument", stage, "ptxas ended well and left no binary: an option has it do something else")
    if isinstance(error, (MemoryError, OSError)):
        code = "unavailable" if getattr(error, "errno", None) in MACHINE_ERRORS else "internal"
        return Failure(code, stage, f"the worker could not go on: {error!r}", deterministic=False)
    if type(error).__name__ == "PTXASError" or "`ptxas`" in str(error):
        return ptxas_failure(str(error), stage)
    words = output.text()
    # Whether the parser or a pass refused it: the compiler went on, this source does not compile, and trying again cannot help.
    code = "resource_exhausted" if OUT_OF_RESOURCES.search(words) else "invalid_argument"
    given_up = LLVM_ERROR.search(words)
    if given_up:
        return Failure("invalid_argument", stage, given_up.group(), output=words)
    for found in DIAGNOSTIC.finditer(words):
        file, line, column, message = found.groups()
        if message.startswith("Failures have been detected"):
            continue  # says only that another line says more
        if os.path.basename(file).startswith(SOURCE_STEM):
            return Failure(code, stage, message, int(line), int(column), words)
        return Failure(code, stage, f"{os.path.basename(file)}:{line}:{column}: {message}", output=words)
    asserted = ASSERTION.search(words)
    if asserted:
        return Failure(code, stage, asserted.group(), output=words)
    bare = BARE_DIAGNOSTIC.search(words)
    message = bare.group(1) if bare else f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Failure(code, stage, message, output=words or "".join(traceback.format_exception(error)))


def parse_advice(text, version):
    """What to do about a source that does not parse. Versions differ in more than names, so any complaint may come of it."""
    other = "cuda" if "__global__" in text else "ptx" if PTX_VERSION.search(text) else ""
    if other:
        return f"; this looks like {other.upper()} and was sent as Triton IR: say which kind it is, as --kind {other}"
    if "tt.func" not in text:
        return "; there is no tt.func in the source: send the module as it is after Triton's ttir stage"
    return other_version_advice(version)


def other_version_advice(version):
    return (f"; was it printed by another version of Triton? This is {version}: name the toolchain that printed it, such as "
            f"--toolchain triton=={version} for this one; kiln doctor lists those here")


def ptxas_failure(text, stage):
    """ptxas refused. It reads PTX that the compiler made, so its complaints are about resources, inline assembly or options;
    a ptxas that was killed or crashed has not decided anything."""
    text = text.partition("Repro command:")[0]
    _, _, log = text.partition("stderr:\n")
    # The temporary file's name is different every time, and nobody's business.
    log = re.sub(r"\S*/\w+\.ptx\b", "kernel.ptx", log)
    # "ptxas fatal" comes last and often only says that a line before it says more.
    said = (re.search(rf"(?:^{PTXAS_ITSELF} error|, line \d+; (?:error|fatal))\s*: (.*)$", log, re.MULTILINE)
            or re.search(rf"^{PTXAS_ITSELF} fatal\s*: (.*)$", log, re.MULTILINE))
    if said:
        code = code_of_complaint(said.group(1))
        return Failure(code, stage, f"ptxas: {said.group(1)}", output=log, deterministic=code in ("invalid_argument", "resource_exhausted"))
    return Failure("internal", stage, text.strip().partition("\n")[0] or "ptxas failed", output=log, deterministic=False)


def code_of_complaint(text):
    """CodeOfComplaint in native_worker/ptxas_report.cc is the same; tests/vectors/ptxas_complaints.json holds the two together."""
    if OUT_OF_RESOURCES.search(text):
        return "resource_exhausted"
    if OUT_OF_MEMORY.search(text):
        return "internal"
    return "unavailable" if OUT_OF_FILES.search(text) else "invalid_argument"


def is_whole_elf(image):
    """Whether the headers of a 64-bit ELF file, and what they point to, end within its bytes."""
    if len(image) < 64 or image[:5] != b"\x7fELF\x02":
        return False
    segments, sections = struct.unpack_from("<QQ", image, 32)
    segment_bytes, segment_count, section_bytes, section_count = struct.unpack_from("<4H", image, 54)
    if max(segments + segment_bytes * segment_count, sections + section_bytes * section_count) > len(image):
        return False
    ends = [0]
    for at in range(sections, sections + section_bytes * section_count, section_bytes or 1):
        kind, offset, size = struct.unpack_from("<4xI16xQQ", image, at)
        if kind not in (0, 8):  # SHT_NULL, SHT_NOBITS
            ends.append(offset + size)
    for at in range(segments, segments + segment_bytes * segment_count, segment_bytes or 1):
        offset, size = struct.unpack_from("<8xQ16xQ", image, at)
        ends.append(offset + size)
    return max(ends) <= len(image)


# --- Describing the toolchain ----------------------------------------------------------------------------------------

OPTION_TYPES = {bool: "bool", int: "integer", float: "number", str: "string", tuple: "tuple", dict: "tuple", list: "tuple"}


def option_type(declared, resolved):
    """The name of a declared type; "any" where it cannot be told or where the backend itself does not keep to it."""
    import typing
    origin = typing.get_origin(declared)
    if origin is typing.Union:
        inner = [kind for kind in typing.get_args(declared) if kind is not type(None)]
        return option_type(inner[0], resolved) if len(inner) == 1 else "any"
    name = OPTION_TYPES.get(origin or declared, "any")
    for value in resolved:
        if value is not None and OPTION_TYPES.get(type(value)) != name:
            return "any"
    return name


def describe_options(compiler, backend, architectures):
    """{name: {"type", "default"}}. A default stands only where it is the same on every architecture and where asking for it
    gives the same as not asking."""
    made = [compiler.target(backend, architecture) for architecture in architectures]
    declared = {name: field.type for name, field in getattr(type(made[0][2]), "__dataclass_fields__", {}).items()}
    described = {}
    for name in made[0][2].__dict__:
        resolved = [defaults.__dict__.get(name) for _, _, defaults in made]
        entry = {"type": option_type(declared.get(name, type(resolved[0])), resolved)}
        fixed = all(value == resolved[0] and type(value) is type(resolved[0]) for value in resolved)
        if fixed and resolved[0] is not None and name not in ("extern_libs", "arch") and all(
                same_when_asked(one, defaults, name) for _, one, defaults in made):
            entry["default"] = resolved[0]
        described[name] = entry
    return described


def same_when_asked(backend, defaults, name):
    try:
        return backend.parse_options({name: getattr(defaults, name)}).__dict__ == defaults.__dict__
    except Exception:
        return False


def compiles(compiler, backend, architecture):
    """Whether WARM_KERNEL compiles. Tried in a child, since a compiler that does not know an architecture may abort."""
    pid = os.fork()
    if pid == 0:
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            compiler.compile(request_for(backend, architecture), WARM_KERNEL.encode())
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def request_for(backend, architecture):
    return {"kind": "ttir", "backend": backend, "architecture": architecture, "warp_size": 0, "options": {}}


def describe(compiler):
    described = []
    for backend in compiler.backends:
        architectures = [one for one in CANDIDATE_ARCHITECTURES.get(backend, ()) if compiles(compiler, backend, one)]
        if not architectures:
            continue
        _, made, defaults = compiler.target(backend, architectures[0])
        stages = {}
        add_stages(made, stages, defaults)
        described.append({
            "backend": backend,
            "architectures": architectures,
            "stages": list(stages)[list(stages).index("ttir") + 1:],
            "options": describe_options(compiler, backend, architectures),
        })
    tools = [f"{tool} {compiler.tool_version(tool)}" for tool in ("ptxas", "ptxas-blackwell") if compiler.tool_version(tool)]
    if any(entry["backend"] == "hip" for entry in described):
        tools.append("lld (in libtriton)")
    return {
        "protocol": PROTOCOL,
        "name": "triton",
        "version": compiler.version,
        "python": ".".join(map(str, sys.version_info[:3])),
        "assembler": ", ".join(tools),
        "hidden_pointers": compiler.hidden_pointers(),
        "kinds": ["ttir", "ttgir"],
        "backends": described,
    }


# --- The zygote ------------------------------------------------------------------------------------------------------


LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    """The result of a call of the C library; OSError where it is -1."""
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option, value):
    checked(LIBC.prctl(option, value, 0, 0, 0))


def die_with(parent, signal_number):
    """Ties this process to its parent. The parent may be gone already, so look once after asking."""
    prctl(PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os._exit(0)


def check_forkable():
    """A forked child of a process with threads, or with a GPU driver in it, is broken."""
    with open("/proc/self/status") as file:
        threads = int(re.search(r"^Threads:\s+(\d+)", file.read(), re.MULTILINE).group(1))
    if threads != 1:
        raise RuntimeError(f"importing triton left {threads} threads running; a zygote must have one")
    with open("/proc/self/maps") as file:
        driver = re.search(r"/lib(?:cuda|amdhip64|nvidia-ml)\.so\S*", file.read())
    if driver:
        raise RuntimeError(f"importing triton loaded a GPU driver ({driver.group()}); a zygote must not")
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            opened = os.readlink(f"/proc/self/fd/{name}")
            if opened.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")):
                raise RuntimeError(f"importing triton opened {opened}; a zygote must not")


class Zygote:
    """Forks workers at the daemon's request, one request at a time."""

    def __init__(self, control, compiler):
        self._control = control
        self._compiler = compiler
        self._workers = set()

    def serve(self):
        while True:
            message, descriptors = self._receive()
            if message is None:
                self.kill_all()
                return
            try:
                reply = self._answer(message, descriptors)
            except Exception as error:
                reply = {"type": "error", "message": one_line(repr(error))}
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            self._control.send(json.dumps(reply).encode())

    def kill_all(self):
        for pid in self._workers:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    def _receive(self):
        data, descriptors, _, _ = socket.recv_fds(self._control, CONTROL_BYTES_MAX, 2, MSG_CMSG_CLOEXEC)
        return (json.loads(data) if data else None), descriptors

    def _answer(self, message, descriptors):
        if message["type"] == "fork":
            job, output = descriptors
            pid, problems = self._fork(message, job, output)
            return {"type": "forked", "pid": pid, "jail_problems": problems}
        if message["type"] == "reap":
            return {"type": "reaped", "pid": message["pid"], "status": self._reap(message["pid"])}
        raise ValueError(f"unknown request {message['type']!r}")

    def _fork(self, message, job, output):
        """The pid of a new worker, and what of its jail it could not enter."""
        zygote = os.getpid()
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            run_worker(self._compiler, self._control, job, output, message, zygote, write_end)
        os.close(write_end)
        # In both processes, so that the group exists before anyone hears of the pid.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._workers.add(pid)
        # Ends when the worker is in its jail, or dead.
        with open(read_end, "rb") as file:
            told = file.read()
        return pid, json.loads(told) if told else ["the worker ended on the way into it"]

    def _reap(self, pid):
        """The wait status of a worker that the daemon has killed; None if it refuses to die within a second."""
        if pid not in self._workers:
            raise ValueError(f"{pid} is not a worker")
        deadline = time.monotonic() + 1.0
        pause = 0.0002
        while True:
            waited, status = os.waitpid(pid, os.WNOHANG)
            if waited:
                break
            if time.monotonic() > deadline:
                return None
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        self._workers.discard(pid)
        self._end_orphans()
        return status

    def _end_orphans(self):
        """Kills and reaps every child that is not a worker: what dead workers left behind."""
        # Again until there are none, since one may fork before it dies, but not for ever.
        for _ in range(100):
            orphans = [pid for pid in child_processes() if pid not in self._workers]
            if not orphans:
                return
            for pid in orphans:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


def child_processes():
    """Pids of this process's children, of which the only thread is the main one."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return []


def run_zygote(control_fd, parent):
    die_with(parent, signal.SIGTERM)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    control = socket.socket(fileno=control_fd)
    control.set_inheritable(False)
    try:
        compiler = Compiler()
        warmed = warm(compiler)
        check_forkable()
    except Exception as error:
        traceback.print_exc()
        control.send(json.dumps({"type": "failed", "message": one_line(repr(error))}).encode())
        return 1
    # Objects that live until the end need not be looked at by any child's collector, which would only copy their pages.
    gc.collect()
    gc.freeze()
    zygote = Zygote(control, compiler)

    def on_terminate(_signal, _frame):
        zygote.kill_all()
        os._exit(0)

    signal.signal(signal.SIGTERM, on_terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hello = {"type": "hello", "protocol": PROTOCOL, "version": compiler.version, "warm": warmed,
             "programs": compiler.programs(), "libraries": compiler.libraries()}
    control.send(json.dumps(hello).encode())
    zygote.serve()
    return 0


def warm(compiler):
    """{"cuda:90": ""} with the error where one failed: that costs its first compile some time, nothing more."""
    results = {}
    for backend, architecture in WARM_TARGETS:
        if backend not in compiler.backends:
            continue
        try:
            compiler.compile(request_for(backend, architecture), WARM_KERNEL.encode())
            results[f"{backend}:{architecture}"] = ""
        except Exception as error:
            results[f"{backend}:{architecture}"] = one_line(repr(error))
    return results


# --- A worker --------------------------------------------------------------------------------------------------------


def run_worker(compiler, control, job_fd, output_fd, message, zygote, told_fd):
    """What a forked child does. Never returns."""
    try:
        os.setpgid(0, 0)
        die_with(zygote, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        control.close()
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        os.close(output_fd)
        job = socket.socket(fileno=job_fd)
        worker = Worker(compiler, job, message)
        with open(told_fd, "w") as told:
            json.dump(worker.confine(), told)
        worker.serve()
        os._exit(0)
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(1)


class Confinement:
    """What a process may do, and may take, from now on: it and all that it will start. daemon/worker/enter_jail.cc does the same."""

    def __init__(self, jail):
        self._jail = jail

    def enter(self):
        """Goes as far as it gets. What could not be done, in words for the operator."""
        problems = []
        steps = {"no_new_privs": self._forbid_new_privileges, "capabilities": self._drop_capabilities}
        if self._jail["files"]:
            steps["Landlock"] = self._restrict_files
        if self._jail["filter"]:
            steps["the system call filter"] = self._filter_system_calls
        for what, step in steps.items():
            try:
                problems += step() or ()
            except OSError as error:
                problems.append(f"{what}: {error.strerror}")
        return problems

    def _forbid_new_privileges(self):
        prctl(PR_SET_NO_NEW_PRIVS, 1)

    def _drop_capabilities(self):
        # Otherwise root's programs have them again, and for such a gain the kernel forgets that addresses are not random. Who may not
        # say so has none to gain.
        with contextlib.suppress(OSError):
            prctl(PR_SET_SECUREBITS, SECBIT_NOROOT)
        checked(LIBC.capset(struct.pack("<Ii", CAPABILITY_VERSION_3, 0), bytes(24)))

    def _restrict_files(self):
        attributes = struct.pack("<QQQ", self._jail["files"], self._jail["network"], self._jail["scopes"])
        ruleset = checked(LIBC.syscall(SYS_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
        problems = []
        try:
            for path, access in self._jail["paths"]:
                try:
                    self._allow(ruleset, path, access)
                except OSError as error:  # costs this path, and not the jail
                    problems.append(f"Landlock, {path}: {error.strerror}")
            checked(LIBC.syscall(SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0))
        finally:
            os.close(ruleset)
        return problems

    def _allow(self, ruleset, path, access):
        try:
            opened = os.open(path, os.O_PATH)
        except (FileNotFoundError, NotADirectoryError):
            return  # what is not there need not be allowed
        try:
            if not stat.S_ISDIR(os.fstat(opened).st_mode):
                access &= LANDLOCK_FILE_RIGHTS
            rule = struct.pack("<Qi", access, opened)
            checked(LIBC.syscall(SYS_LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0))
        finally:
            os.close(opened)

    def _filter_system_calls(self):
        instructions = b"".join(struct.pack("=HBBI", *one) for one in self._jail["filter"])
        kept = ctypes.create_string_buffer(instructions, len(instructions))
        program = struct.pack("@HP", len(self._jail["filter"]), ctypes.addressof(kept))
        checked(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0))


class Limits:
    """What a process may take, by the names of the fork message."""

    RESOURCES = {
        "file_bytes": resource.RLIMIT_FSIZE,
        "address_space_bytes": resource.RLIMIT_AS,
        "processes": resource.RLIMIT_NPROC,
        "descriptors": resource.RLIMIT_NOFILE,
    }

    def __init__(self, limits):
        self._limits = limits

    def set(self):
        """Like Confinement.enter."""
        problems = []
        wanted = {resource.RLIMIT_CORE: 0}
        wanted.update({limit: self._limits[name] for name, limit in self.RESOURCES.items() if self._limits[name]})
        for limit, value in wanted.items():
            _, most = resource.getrlimit(limit)
            value = value if most == resource.RLIM_INFINITY else min(value, most)
            try:
                resource.setrlimit(limit, (value, value))
            except OSError as error:
                problems.append(f"limit {limit}: {error.strerror}")
        return problems

    def extend_cpu_time(self):
        """For one more compile: the kernel counts from the start of the process. Deadlines end a compile that takes long; this ends
        what has got away from them."""
        if self._limits["cpu_seconds"]:
            used = resource.getrusage(resource.RUSAGE_SELF)
            _, most = resource.getrlimit(resource.RLIMIT_CPU)
            resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + self._limits["cpu_seconds"], most))


def do_not_randomize_programs():
    """Has the kernel load what this process executes at the same addresses every time; the process itself stays as it is.

    ptxas-blackwell 12.9 allocates registers of tensor-core code in an order that depends on addresses: one PTX gives two cubins,
    and a local compile comes to either. Here it is one of them, always the same, so a compile can be repeated and compared. Where a
    sandbox forbids the call, chance decides as it does locally.
    """
    personality = LIBC.personality
    personality.argtypes = [ctypes.c_ulong]
    current = personality(PERSONALITY_ASK)
    if current != -1:
        personality(current | ADDR_NO_RANDOMIZE)


class PeakMemory:
    """The most memory that this process holds between a reset and a look, beyond what it holds now.

    What it holds now, just forked, it shares with its zygote. Opens what it needs at once, since a jail may close /proc later.
    `memory` is /proc/self/statm, open.
    """

    def __init__(self, memory):
        self._baseline = resident_bytes(memory)
        try:
            self._reset = os.open("/proc/self/clear_refs", os.O_WRONLY)
            self._status = os.open("/proc/self/status", os.O_RDONLY)
        except OSError:  # a kernel without CONFIG_PROC_PAGE_MONITOR
            self._reset = self._status = None

    def reset(self):
        """Forgets the peak so far. Where that is not allowed, there is no telling of this compile's own."""
        if self._reset is None:
            return
        try:
            os.pwrite(self._reset, b"5", 0)
        except OSError:
            os.close(self._reset)
            self._reset = None

    def bytes(self):
        """None where it cannot be told."""
        if self._reset is None:
            return None
        found = re.search(rb"^VmHWM:\s+(\d+) kB", os.pread(self._status, 1 << 16, 0), re.MULTILINE)
        return found and max(0, 1024 * int(found.group(1)) - self._baseline)


class Worker:
    """Compiles what comes in on a job socket, one after the other."""

    def __init__(self, compiler, job, message):
        self._compiler = compiler
        self._job = job
        self._message = message
        self._limits = Limits(message["limits"])
        # A jailed process opens nothing of /proc.
        self._memory = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._peak = PeakMemory(self._memory)

    def confine(self):
        """What of it failed, in words."""
        directory = self._message["directory"]
        os.chdir(directory)
        for name in ("HOME", "TMPDIR", "TRITON_CACHE_DIR"):
            os.environ[name] = directory
        tempfile.tempdir = None
        os.umask(0o077)
        do_not_randomize_programs()
        problems = self._limits.set()
        if self._message["jail"] is not None:
            problems += Confinement(self._message["jail"]).enter()
        return problems

    def serve(self):
        while True:
            frame = read_frame(self._job)
            if frame is None:
                return
            self._limits.extend_cpu_time()
            if not self._compile(*frame):
                return

    def _compile(self, identifier, request, source):
        """False where this process must not go on."""
        before = cpu_micros()
        started = time.perf_counter_ns()
        self._peak.reset()
        output = Output()
        reply = {"stages": []}
        blobs = []
        try:
            done, reply["kernel"] = self._compiler.compile(request, source)
            reply["outcome"] = "compiled"
            for stage, content, micros in done:
                reply["stages"].append({"name": stage, "bytes": len(content or b""), "micros": micros})
                if content is not None:
                    blobs.append(content)
        except Failure as failure:
            reply["outcome"] = "failed"
            reply["failure"] = failure.to_json()
        # Triton turns a crash inside a pass into an exception. Nothing that this process says afterwards can be trusted.
        words = output.text()
        tainted = TAINTED in words or LLVM_ERROR.search(words) is not None
        if tainted:
            reply["outcome"] = "crashed"
        reply["usage"] = {
            "cpu_micros": cpu_micros() - before,
            "wall_micros": elapsed_micros(started),
            "rss_bytes": resident_bytes(self._memory),
            "peak_bytes": self._peak.bytes(),
        }
        write_frame(self._job, identifier, reply, blobs)
        return not tainted


def cpu_micros():
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int(1e6 * (own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime))


def resident_bytes(memory):
    """What this process holds; `memory` is /proc/self/statm, open."""
    return int(os.pread(memory, 256, 0).split()[1]) * resource.getpagesize()


def read_exactly(connection, size):
    """`size` bytes, or None when the other side is gone."""
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        received = connection.recv_into(view)
        if received == 0:
            return None
        view = view[received:]
    return bytes(buffer)


def read_frame(job):
    start = read_exactly(job, FRAME.size)
    if start is None:
        return None
    magic, version, kind, header_bytes, identifier, payload_bytes = FRAME.unpack(start)
    if magic != FRAME_MAGIC or version != PROTOCOL or kind != FRAME_COMPILE:
        raise ValueError(f"not a compile frame: {start!r}")
    if header_bytes > HEADER_BYTES_MAX or payload_bytes > PAYLOAD_BYTES_MAX:
        raise ValueError(f"a frame of {header_bytes} + {payload_bytes} bytes is over the limit")
    header = read_exactly(job, header_bytes)
    payload = read_exactly(job, payload_bytes)
    return None if header is None or payload is None else (identifier, json.loads(header), payload)


def write_frame(job, identifier, header, blobs):
    text = json.dumps(header).encode()
    start = FRAME.pack(FRAME_MAGIC, PROTOCOL, FRAME_RESULT, len(text), identifier, sum(map(len, blobs)))
    job.sendall(b"".join((start, text, *blobs)))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = arguments.add_mutually_exclusive_group(required=True)
    mode.add_argument("--describe", action="store_true", help="print what this toolchain is and can do")
    mode.add_argument("--zygote", action="store_true", help="serve fork requests on the control socket")
    arguments.add_argument("--output-fd", type=int, default=1, help="where --describe prints to")
    arguments.add_argument("--control-fd", type=int, default=-1)
    arguments.add_argument("--parent", type=int, default=-1, help="pid of the daemon")
    chosen = arguments.parse_args()
    if chosen.zygote:
        if chosen.control_fd < 0 or not stat.S_ISSOCK(os.fstat(chosen.control_fd).st_mode):
            arguments.error("--zygote needs --control-fd with an open socket: it is the daemon that starts it")
        return run_zygote(chosen.control_fd, chosen.parent)
    with tempfile.TemporaryDirectory(prefix="kiln-describe-") as directory:
        os.chdir(directory)
        text = json.dumps(describe(Compiler())) + "\n"
        os.chdir("/")
    with open(chosen.output_fd, "w", closefd=False) as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
