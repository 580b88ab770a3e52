#include "client/cli/commands/reproducer_scripts.h"

#include <fmt/format.h>

namespace kiln::cli {
namespace {

// Between a script's head, which imports what this needs, and the rest of it.
constexpr std::string_view kShared = R"script(

HERE = os.path.dirname(os.path.abspath(__file__))


def refuse(why):
    """Ends the program: what would have come out is not known."""
    print(f"reproduce.py: {why}", file=sys.stderr)
    sys.exit(2)


def parse_arguments(**given):
    """What was given on the command line, by name; `given` says how many there may be of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in given.items():
        parser.add_argument(name, nargs=count, metavar=name.upper())
    return parser.parse_args()


def read(name):
    try:
        with open(os.path.join(HERE, name), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        refuse(f"{name} has to lie beside it, as `kiln reproduce` wrote it: {error}")


def make_out(source):
    """An empty out/ beside this file, but for the source. HERE is the current directory from here on."""
    try:
        os.chdir(HERE)
        shutil.rmtree("out", ignore_errors=True)
        os.mkdir("out")
        shutil.copy(source, "out")
    except OSError as error:
        refuse(f"it cannot put {source} into {os.path.join(HERE, 'out')}: {error}")


def check_ptxas(path, digest, advice):
    """Ends the program where that is not the ptxas of this SHA-256."""
    try:
        with open(path, "rb") as file:
            found = hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        refuse(f"{path} is no file that can be read ({error.strerror}): {advice}")
    if found != digest:
        refuse(f"{path} is another ptxas, its SHA-256 is {found}: {advice}")


def let_a_child_go_on():
    """What crashed a worker takes this process along as well, so a child does the rest, and this one tells how it ended."""
    child = os.fork()
    if child == 0:
        return
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        print(f"the compiler crashes: signal {os.WTERMSIG(status)}")
    sys.exit(0 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


)script";

// What it asks of Triton is what kilnd's workers ask.
constexpr std::string_view kTritonHead = R"script(#!/usr/bin/env python3
"""Compiles the kernel beside it as kilnd did, without kilnd. Written by `kiln reproduce`.

Run it with the Python of the toolchain that expected.json names; no GPU is needed. For a Triton from PyPI:

    python3 -m venv venv && venv/bin/pip install triton==VERSION && venv/bin/python reproduce.py

It takes no arguments. Every stage ends up in out/, beside it. Exit status: 0 as expected, 1 otherwise, 2 where it could not be tried.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
)script";
constexpr std::string_view kTritonRest =
    R"script(# Some assemblers give one of two binaries, as the addresses fall. The other one is missed so often in a row once in a million times.
TRIES = 20

parse_arguments()
expected, request = read("expected.json"), read("request.jsonl")
ptxas = os.environ.get("TRITON_PTXAS_PATH", "")
# A worker has next to nothing of an environment: Triton's switches change what comes out, and a cache manager may answer by itself.
for name in set(os.environ) - {"HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR"}:
    del os.environ[name]
if "ptxas" in request:
    # PyTorch's, say, and not the toolchain's own.
    advice = f"set TRITON_PTXAS_PATH to the ptxas whose SHA-256 is {request['ptxas']}"
    if not ptxas:
        refuse(advice)
    check_ptxas(ptxas, request["ptxas"], advice)
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        os.environ[name] = os.path.abspath(ptxas)

# Read when triton is imported. The stages are left in the cache, in a directory of their own.
os.environ["TRITON_CACHE_DIR"] = os.path.join(HERE, "out")

try:
    import triton  # noqa: E402
except ImportError as error:
    if (error.name or "").partition(".")[0] != "triton":
        raise
    refuse(f"{sys.executable} has no Triton ({error}): run this with the Python of {expected['toolchain']}. For a Triton from PyPI:\n"
           f"python3 -m venv venv && venv/bin/pip install {expected['toolchain']} && venv/bin/python {os.path.join(HERE, 'reproduce.py')}")
from triton._C.libtriton import ir  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import compiler  # noqa: E402


def put_back_origins(module, text):
    """Comments behind the text say where the arguments of the module's blocks come from, for which MLIR's own text has no place."""
    _, begin, comments = text.rpartition("\n// The arguments of its blocks come from:\n")
    if not begin:
        return
    lines = comments.rstrip().split("\n")
    if not all(line.startswith("// loc(") for line in lines):
        raise ValueError("there is something else among the comments behind the module")
    with open("kernel.origins", "w", encoding="utf-8") as file:
        file.write("module {\n" + "".join(f"arith.constant true {line[3:]}\n" for line in lines) + "}\n")
    try:
        bearers = ir.parse_mlir_module("kernel.origins", module.context)
    finally:
        os.remove("kernel.origins")
    bearers.context = module.context
    arguments, origins, seen = [], [], set()

    def find_arguments(operation):
        block = operation.get_block()
        if block is not None and block.id() not in seen:
            seen.add(block.id())
            arguments.extend(block.arg(i) for i in range(block.get_num_arguments()))

    def find_origin(operation):
        if operation.get_num_results() == 1:
            origins.append(operation.get_result(0).get_loc())

    module.walk(find_arguments)
    bearers.walk(find_origin)
    if not len(arguments) == len(origins) == len(lines):
        raise ValueError(f"{len(lines)} comments behind the module, and its blocks have {len(arguments)} arguments")
    for argument, origin in zip(arguments, origins):
        argument.set_loc(origin)


class SourceThatGoes(compiler.IRSource):
    """Gone once it is parsed: an assembler that finds it writes its time and size into the line table."""

    def make_ir(self, *arguments, **named):
        module = super().make_ir(*arguments, **named)
        put_back_origins(module, self.src)
        os.remove(self.path)
        return module


compiler.IRSource = SourceThatGoes


def to_tuples(value):
    return tuple(map(to_tuples, value)) if isinstance(value, list) else value


backend, architecture, *warp_size = request["target"].split(":")
if warp_size:
    warp_size = int(warp_size[0])
else:
    warp_size = 64 if backend == "hip" and len(architecture) == 6 else 32
target = GPUTarget(backend, int(architecture) if backend == "cuda" else architecture, warp_size)
options = {name: to_tuples(value)
           for given in ("launch", "options") for name, value in request.get(given, {}).items()}

if f"triton=={triton.__version__}" != expected["toolchain"]:
    print(f"warning: this is Triton {triton.__version__}, it was {expected['toolchain']}", file=sys.stderr)


def compile_afresh():
    make_out(f"kernel.{request['kind']}")
    os.chdir("out")
    asm = triton.compile(f"kernel.{request['kind']}", target=target, options=options).asm
    return {stage: asm[stage] if isinstance(asm[stage], bytes) else str(asm[stage]).encode() for stage in expected.get("stages", {})}


def is_as_stored(made, stage):
    return hashlib.sha256(made[stage]).hexdigest() == expected["stages"][stage]


if "crash" in expected.get("failure", {}):
    let_a_child_go_on()
try:
    made = compile_afresh()
except (ImportError, OSError) as error:
    refuse(error)
except Exception as error:
    print(f"it does not compile: {error}")
    sys.exit(0 if "failure" in expected else 1)
if "stages" not in expected:
    print("it compiles")
    sys.exit(1)
final = list(expected["stages"])[-1]
for _ in range(TRIES - 1):
    if is_as_stored(made, final):
        break
    made = compile_afresh()
for stage, content in made.items():
    print(f"{stage}: {len(content)} bytes, {'as stored' if is_as_stored(made, stage) else 'NOT as stored'}")
sys.exit(0 if is_as_stored(made, final) else 1)
)script";

// What it asks of ptxas and of NVRTC is what kiln-worker asks.
constexpr std::string_view kNativeHead = R"script(#!/usr/bin/env python3
"""Compiles the kernel beside it as kilnd did, without kilnd. Written by `kiln reproduce`.

Any Python 3 runs it, no GPU is needed. It is told where the compiler is that expected.json names:

    python3 reproduce.py PTXAS                   kernel.ptx: the file; by default the ptxas in PATH
    python3 reproduce.py DIRECTORY [INCLUDE …]   kernel.cu: a CUDA toolkit, by default /usr/local/cuda, or a virtual environment
                                                 with NVIDIA's wheels for NVRTC and the CUDA runtime of its release. INCLUDE is
                                                 what kilnd was told of as toolchain.include_directories

Every stage ends up in out/, beside it. Exit status: 0 as expected, 1 otherwise, 2 where it could not be tried.
"""

import argparse
import ctypes
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
)script";
constexpr std::string_view kNativeRest =
    R"script(# Options that take true or false. The others of that type are flags.
TRUTHS = {
    "allow-expensive-optimizations", "builtin-initializer-list", "builtin-move-forward", "device-stack-protector", "fmad", "ftz",
    "modify-stack-limit", "position-independent-code", "prec-div", "prec-sqrt", "relocatable-device-code",
}
# A toolkit's libraries and headers, and those of NVIDIA's wheels for CUDA 12 and 13.
PLACES = (
    ("lib64", ("include", "include/cccl")),
    ("lib/python3.*/site-packages/nvidia/cuda_nvrtc/lib",
     ("../../cuda_runtime/include", "../../cuda_cccl/include", "../../cuda_nvcc/include")),
    ("lib/python3.*/site-packages/nvidia/cu13/lib", ("../include", "../include/cccl")),
)
FIXED_ADDRESSES = 0x0040000  # of personality(2)


class Refused(Exception):
    """The compiler does not take the source."""


def spelled(name, value):
    """The arguments for one option."""
    name = {"maxnreg": "maxrregcount"}.get(name, name)
    if isinstance(value, bool):
        if name in TRUTHS:
            return [f"--{name}={str(value).lower()}"]
        return [f"--{name}"] if value else []
    if name in ("define-macro", "undefine-macro"):
        return [f"--{name}={item}" for item in value]
    return [f"--{name}={','.join(map(str, value)) if isinstance(value, list) else value}"]


def arguments_of(request):
    options = {**request.get("launch", {}), **request.get("options", {})}
    return [argument for name in sorted(options) if name != "name-expressions" for argument in spelled(name, options[name])]


def assemble(request, expected, ptxas=None):
    advice = f"give the ptxas whose SHA-256 is {expected['fingerprint']}: {expected['toolchain']}"
    ptxas = ptxas or shutil.which("ptxas") or refuse(f"there is no ptxas in PATH: {advice}")
    check_ptxas(ptxas, expected["fingerprint"], advice)
    # A PTX may name this very file as its source, and ptxas writes the times of those into the binary.
    os.utime("out/kernel.ptx", (0, 0))
    # Some releases allocate registers in an order that depends on addresses.
    ctypes.CDLL(None).personality(FIXED_ADDRESSES)
    # Since CUDA 13 the name that it is called by is in the binary too.
    command = ["ptxas", "-v", f"--gpu-name=sm_{request['target'].split(':')[1]}", *arguments_of(request)]
    done = subprocess.run([*command, "kernel.ptx", "-o", "kernel.cubin"], executable=ptxas, cwd="out", capture_output=True)
    if done.returncode != 0:
        raise Refused((done.stdout + done.stderr).decode(errors="replace"))
    with open("out/kernel.cubin", "rb") as file:
        return {"cubin": file.read()}


class Nvrtc:
    def __init__(self, directory, includes):
        for pattern, headers in PLACES:
            for folder in glob.glob(os.path.join(directory, pattern)):
                if not glob.glob(f"{folder}/libnvrtc.so.*"):
                    continue
                base = os.path.dirname(folder) if pattern == "lib64" else folder
                found = [os.path.realpath(os.path.join(base, each)) for each in headers]
                self.includes = [each for each in found if os.path.isdir(each)] + [os.path.realpath(each) for each in includes]
                builtins = sorted(glob.glob(f"{folder}/libnvrtc-builtins.so.*")) or refuse(f"no libnvrtc-builtins.so lies in {folder}")
                ctypes.CDLL(builtins[-1], ctypes.RTLD_GLOBAL)
                self._library = ctypes.CDLL(os.path.realpath(sorted(glob.glob(f"{folder}/libnvrtc.so.*"))[0]))
                self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
                return
        refuse(f"no NVRTC in {directory}: give the directory of a CUDA toolkit, or of a virtual environment with NVIDIA's wheels")

    def call(self, name, *arguments):
        error = getattr(self._library, name)(*arguments)
        if error != 0:
            raise Refused(f"{name}: {self._library.nvrtcGetErrorString(error).decode()}")

    def get(self, program, what):
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, content)
        return content.raw


def strings(texts):
    texts = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(texts))(*texts)


def compile_cuda(request, expected, directory=None, includes=()):
    nvrtc = Nvrtc(directory or "/usr/local/cuda", includes)
    headers = request.get("headers", {})
    expressions = request.get("options", {}).get("name-expressions", [])
    program = ctypes.c_void_p()
    nvrtc.call("nvrtcCreateProgram", ctypes.byref(program), request["source"].encode(), b"kernel.cu", len(headers),
               strings(headers.values()), strings(headers))
    for expression in expressions:
        nvrtc.call("nvrtcAddNameExpression", program, expression.encode())
    arguments = [f"--gpu-architecture=sm_{request['target'].split(':')[1]}", *(f"--include-path={path}" for path in nvrtc.includes),
                 "--no-cache", "--ptxas-options=-v", *arguments_of(request)]
    here = os.getcwd()
    os.chdir("/")  # NVRTC writes the current directory into line tables
    try:
        nvrtc.call("nvrtcCompileProgram", program, len(arguments), strings(arguments))
    except Refused as error:
        raise Refused(f"{error}\n{nvrtc.get(program, 'ProgramLog').rstrip(bytes(1)).decode(errors='replace')}") from None
    finally:
        os.chdir(here)
    if "dlink-time-opt" in request.get("options", {}):
        return {"ltoir": nvrtc.get(program, "LTOIR")}
    made = {"ptx": nvrtc.get(program, "PTX").rstrip(bytes(1)), "cubin": nvrtc.get(program, "CUBIN")}
    if f"V{expected['toolchain'].split('==')[1]}".encode() not in made["ptx"]:
        print(f"warning: this is another NVRTC than {expected['toolchain']}", file=sys.stderr)
    return made


def main():
    expected, request = read("expected.json"), read("request.jsonl")
    if request["kind"] == "ptx":
        source, make, given = "kernel.ptx", assemble, parse_arguments(ptxas="?")
    else:
        source, make, given = "kernel.cu", compile_cuda, parse_arguments(directory="?", includes="*")
    # They are relative to where this was started.
    places = {name: os.path.abspath(value) if isinstance(value, str) else [os.path.abspath(path) for path in value]
              for name, value in vars(given).items() if value}
    make_out(source)
    if "crash" in expected.get("failure", {}):
        let_a_child_go_on()
    try:
        made = make(request, expected, **places)
    except Refused as error:
        print(f"it does not compile: {error}")
        return 0 if "failure" in expected else 1
    if "stages" not in expected:
        print("it compiles")
        return 1
    for stage, content in made.items():
        with open(f"out/kernel.{stage}", "wb") as file:
            file.write(content)
        equal = hashlib.sha256(content).hexdigest() == expected["stages"][stage]
        print(f"{stage}: {len(content)} bytes, {'as stored' if equal else 'NOT as stored'}")
    return 0 if equal else 1  # the last one, which is the final binary, decides


try:
    sys.exit(main())
except OSError as error:
    refuse(error)
)script";

}  // namespace

std::string TritonScript() { return fmt::format("{}{}{}", kTritonHead, kShared, kTritonRest); }
std::string NativeScript() { return fmt::format("{}{}{}", kNativeHead, kShared, kNativeRest); }

}  // namespace kiln::cli
