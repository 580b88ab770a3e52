"""OpenCL in this process, with Intel's runtime for CPUs: what a program does itself besides launching."""

import ctypes
import hashlib
import json
import os
import subprocess

from places import OPENCL

_SVM_FLAGS = 1 | 1 << 10  # read and write, fine-grained: the host reads it as it is
_QUEUE_PROPERTIES = 0x1093


class OpenCl:
    """A context's queue, and memory that kernels and Python share."""

    def __init__(self, context):
        self._library = ctypes.CDLL("libOpenCL.so.1")
        self.context = context
        device = ctypes.c_void_p()
        self._call("clGetContextInfo", ctypes.c_void_p(context), 0x1081, ctypes.c_size_t(8), ctypes.byref(device), None)
        self._device = device
        self.queue = self._make("clCreateCommandQueueWithProperties", ctypes.c_void_p(context), device, (ctypes.c_uint64 * 3)(_QUEUE_PROPERTIES, 2, 0))
        self._memory = []

    def new_context(self):
        """A context of a program's own, on the same device."""
        return self._make("clCreateContext", None, 1, ctypes.byref(self._device), None, None)

    def array(self, kind, values):
        """A ctypes array in memory that kernels see; its address is ctypes.addressof."""
        allocate = self._library.clSVMAlloc
        allocate.restype = ctypes.c_void_p
        size = ctypes.sizeof(kind) * len(values)
        memory = allocate(ctypes.c_void_p(self.context), ctypes.c_uint64(_SVM_FLAGS), ctypes.c_size_t(size), 0)
        assert memory
        self._memory.append(memory)
        array = (kind * len(values)).from_address(memory)
        array[:] = values
        return array

    def program(self, module, options=""):
        """A SPIR-V module, built. Kernels are launched by `launch`. `options`: as OpenCL spells them."""
        program = self._make("clCreateProgramWithIL", ctypes.c_void_p(self.context), module, ctypes.c_size_t(len(module)))
        self._call("clBuildProgram", ctypes.c_void_p(program), 0, None, options.encode(), None, None)
        return program

    def launch(self, program, name, blocks, threads, arrays, numbers):
        """Puts a kernel of a program on the queue: up to three extents of blocks, of `threads` each on the first axis."""
        kernel = ctypes.c_void_p(self._make("clCreateKernel", ctypes.c_void_p(program), name.encode()))
        for place, array in enumerate(arrays):
            self._call("clSetKernelArgSVMPointer", kernel, place, ctypes.c_void_p(ctypes.addressof(array)))
        for place, number in enumerate(numbers, len(arrays)):
            self._call("clSetKernelArg", kernel, place, ctypes.c_size_t(8), ctypes.byref(ctypes.c_int64(number)))
        local = (ctypes.c_size_t * 3)(threads, 1, 1)
        items = (ctypes.c_size_t * 3)(*(extent * size for extent, size in zip((*blocks, 1, 1)[:3], local)))
        self._call("clEnqueueNDRangeKernel", ctypes.c_void_p(self.queue), kernel, 3, None, items, local, 0, None, None)
        self._call("clReleaseKernel", kernel)

    def finish(self):
        self._call("clFinish", ctypes.c_void_p(self.queue))

    def close(self):
        self.finish()
        for memory in self._memory:
            self._library.clSVMFree(ctypes.c_void_p(self.context), ctypes.c_void_p(memory))
        self._call("clReleaseCommandQueue", ctypes.c_void_p(self.queue))

    def _call(self, name, *arguments):
        assert getattr(self._library, name)(*arguments) == 0, name

    def _make(self, name, *arguments):
        function = getattr(self._library, name)
        function.restype = ctypes.c_void_p
        result = ctypes.c_int32()
        made = function(*arguments, ctypes.byref(result))
        assert result.value == 0, (name, result.value)
        return made


def register():
    """Has OpenCL's loader find Intel's runtime for CPUs, and nothing else, in this process and its children."""
    assert (OPENCL / "vendors").is_dir(), f"no OpenCL runtime in {OPENCL}: run tests/opencl_environment"
    os.environ["OCL_ICD_VENDORS"] = str(OPENCL / "vendors")


def spirv(source, folder):
    """OpenCL C as a SPIR-V module, as the daemon makes it."""
    (folder / "k.cl").write_text(source)
    subprocess.run(["clang-15", "-c", "-target", "spirv64", "-x", "cl", "-cl-std=CL2.0", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-O2",
                    "-w", "k.cl", "-o", "k.bc"], cwd=folder, check=True)
    subprocess.run(["llvm-spirv-15", "--spirv-max-version=1.2", "k.bc", "-o", "k.spv"], cwd=folder, check=True)
    return (folder / "k.spv").read_bytes()


def artifact_file(folder, module, name, *parameters, target="spirv:1.2"):
    """The .json file of a kernel (name, type) of a module, as `kiln compile -o` writes it."""
    (folder / f"{name}.spv").write_bytes(module)
    metadata = {"name": name, "target": target, "num_warps": 0, "warp_size": 1,
                "parameters": [{"name": parameter, "type": kind} for parameter, kind in parameters]}
    stages = [{"stage": "spv", "digest": hashlib.sha256(module).hexdigest(), "file": f"{name}.spv"}]
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"metadata": metadata, "stages": stages}))
    return path
