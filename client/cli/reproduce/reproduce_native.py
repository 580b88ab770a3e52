#!/usr/bin/env python3
"""Compiles the kernel beside it as kilnd did, without kilnd. Written by `kiln reproduce`.

Any Python 3 runs it, no GPU is needed. Its arguments say where the compiler is that expected.json names:

    python3 reproduce.py PTXAS                   kernel.ptx: the file; by default the ptxas in PATH
    python3 reproduce.py DIRECTORY [INCLUDE …]   kernel.cu: a CUDA toolkit, by default /usr/local/cuda, or a virtual environment
                                                 with NVIDIA's wheels for NVRTC and the CUDA runtime of its release. INCLUDE is
                                                 another directory with headers

Every stage ends up in out/, beside it. Exit status: 0 as expected, 1 otherwise, 2 where it could not be tried.
"""

import ctypes
import glob
import hashlib
import mmap
import os
import shutil
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
from common import check_ptxas, continue_in_child, make_out, parse_arguments, read, refuse  # noqa: E402
from seccomp import LIBC, blind_programs  # noqa: E402

# Options that take true or false. The others of that type are flags.
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
    blind_programs()  # ptxas writes time and size of a source that it finds into the line table
    # Some releases allocate registers in an order that depends on addresses.
    ctypes.CDLL(None).personality(FIXED_ADDRESSES)
    # Since CUDA 13 the binary contains the first word of the command.
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
                path = os.path.realpath(sorted(glob.glob(f"{folder}/libnvrtc.so.*"))[0])
                self._library = ctypes.CDLL(path)
                undate_files(path)
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


def undate_files(path):
    """Has this library of NVRTC, which is loaded, hear of no file's time and size: it would write them into the line table.

    Puts another function into its slots for __xstat, which its relocations name.
    """
    hasattr(LIBC, "stat") or refuse("kernels of NVRTC are repeated with glibc 2.33 or later")
    with open("/proc/self/maps") as maps:
        base = int(next(line for line in maps if line.rstrip().endswith(path)).partition("-")[0], 16)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        (at, ), (count, ) = struct.unpack_from("<Q", image, 40), struct.unpack_from("<H", image, 60)
        sections = [struct.unpack_from("<IIQQQQIIQQ", image, at + 64 * index) for index in range(count)]
        for _, kind, _, _, start, size, link, *_ in sections:
            if kind != 4 or not link:  # SHT_RELA with symbols
                continue
            symbols = sections[link]
            names = sections[symbols[6]][4]
            for slot, info, _ in struct.iter_unpack("<QQq", image[start:start + size]):
                name = names + struct.unpack_from("<I", image, symbols[4] + 24 * (info >> 32))[0] if info >> 32 else 0
                if image[name:name + 8] == b"__xstat\0":
                    page = (base + slot) & -mmap.PAGESIZE
                    LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_WRITE)
                    ctypes.c_void_p.from_address(base + slot).value = ctypes.cast(undated_stat, ctypes.c_void_p).value


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def undated_stat(_, path, status):
    result = LIBC.stat(path, ctypes.c_void_p(status))
    if result == 0:
        ctypes.memset(status + 48, 0, 8)  # st_size
        ctypes.memset(status + 88, 0, 16)  # st_mtim
    return result


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
        source, make, given = "kernel.ptx", assemble, parse_arguments(__doc__, ptxas="?")
    else:
        source, make, given = "kernel.cu", compile_cuda, parse_arguments(__doc__, directory="?", includes="*")
    # Paths are relative to the directory where the program starts.
    places = {name: os.path.abspath(value) if isinstance(value, str) else [os.path.abspath(path) for path in value]
              for name, value in vars(given).items() if value}
    make_out(source)
    if "crash" in expected.get("failure", {}):
        continue_in_child()
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
    return 0 if equal else 1  # the last stage is the final binary


try:
    sys.exit(main())
except OSError as error:
    refuse(error)
