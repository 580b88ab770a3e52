"""NVRTC's own interface, called as any program would call it: what CUDA C++ through the daemon is held against.

    bare_nvrtc.py DIRECTORY    serves batches: one JSON list of jobs a line in, one JSON list of results a line out, in one process

DIRECTORY holds one NVRTC, installed by deploy/install-toolchain or a CUDA toolkit. A job is {"source", "architecture"} and what it has of "options" (as
NVRTC spells them), "headers" (texts by name) and "expressions"; a result is {"ms", "ptx", "cubin", "lowered"}, the two binaries in Base64. One NVRTC in one
process: two of them share symbols. Needs the standard library alone.
"""

import base64
import ctypes
import json
import os
import pathlib
import sys
import time

# Where a library lies and its headers: a toolkit's, those of NVIDIA's wheels for CUDA 12, for CUDA 13.
PLACES = (
    ("lib64", ("include", "include/cccl")),
    ("lib/python3.*/site-packages/nvidia/cuda_nvrtc/lib",
     ("../../cuda_runtime/include", "../../cuda_cccl/include", "../../cuda_nvcc/include")),
    ("lib/python3.*/site-packages/nvidia/cu13/lib", ("../include", "../include/cccl")),
)
# What Kiln adds to every compile: it is the cache itself, and wants to know of registers.
ALWAYS = ("--no-cache", "--ptxas-options=-v")


def find(directory):
    """The library, its built-ins, and the directories with its headers."""
    for libraries, includes in PLACES:
        for folder in sorted(pathlib.Path(directory).glob(libraries)):
            found = sorted(folder.glob("libnvrtc.so.*"))
            if found:
                builtins = sorted(folder.glob("libnvrtc-builtins.so.*"))[-1]
                base = folder if ".." in includes[0] else folder.parent
                headers = [(base / include).resolve() for include in includes]
                return found[0].resolve(), builtins, [path for path in headers if path.is_dir()]
    raise FileNotFoundError(f"no NVRTC in {directory}")


class Nvrtc:
    """Raises RuntimeError, with the log, for what does not compile."""

    def __init__(self, directory):
        library, builtins, self.includes = find(directory)
        ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(library))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def arguments(self, architecture, options=()):
        includes = [f"--include-path={path}" for path in self.includes]
        return [f"--gpu-architecture=sm_{architecture}", *includes, *ALWAYS, *options]

    def compile(self, source, architecture, options=(), headers=None, expressions=()):
        headers = headers or {}
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"kernel.cu", len(headers),
                   _strings(headers.values()), _strings(headers))
        try:
            for expression in expressions:
                self._call("nvrtcAddNameExpression", program, expression.encode())
            arguments = self.arguments(architecture, options)
            try:
                self._call("nvrtcCompileProgram", program, len(arguments), _strings(arguments))
            except RuntimeError as error:
                raise RuntimeError(f"{error}: {self._output(program, 'nvrtcGetProgramLog').decode()}") from None
            return {"ptx": self._output(program, "nvrtcGetPTX").rstrip(b"\0"), "cubin": self._output(program, "nvrtcGetCUBIN"),
                    "lowered": [self._lowered(program, expression) for expression in expressions]}
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _call(self, name, *arguments):
        error = getattr(self._library, name)(*arguments)
        if error != 0:
            raise RuntimeError(f"{name}: {self._library.nvrtcGetErrorString(error).decode()}")

    def _output(self, program, name):
        size = ctypes.c_size_t()
        self._call(f"{name}Size", program, ctypes.byref(size))
        output = ctypes.create_string_buffer(size.value)
        self._call(name, program, output)
        return output.raw

    def _lowered(self, program, expression):
        name = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, expression.encode(), ctypes.byref(name))
        return name.value.decode()


def _strings(texts):
    texts = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(texts))(*texts)


def timed(nvrtc, job):
    begin = time.perf_counter()
    made = nvrtc.compile(**job)
    took = 1000 * (time.perf_counter() - begin)
    return {"ms": took, "lowered": made["lowered"],
            **{stage: base64.b64encode(made[stage]).decode() for stage in ("ptx", "cubin")}}


def main():
    nvrtc = Nvrtc(sys.argv[1])
    os.chdir("/")  # it writes the current directory into line tables
    for line in sys.stdin:
        print(json.dumps([timed(nvrtc, job) for job in json.loads(line)]), flush=True)


if __name__ == "__main__":
    main()
