"""Runs the handler for JAX on the host, over the stand-in driver; test_jax_handler.py drives it.

    python jax_handler_job.py BUILD     with Kiln's package and a version of JAX on PYTHONPATH; BUILD: the build's folder

Each line of standard input names a function of this file and its arguments, in JSON; each line of standard output is what it returned,
or {"error": …}. The stand-in driver takes JAX's arrays for device memory, and its kernels compute in Python.
"""

import ctypes
import functools
import gc
import hashlib
import json
import pathlib
import sys
import threading
import traceback

import jax
import jax.numpy as jnp
import kiln
import numpy as np

TARGET = "kiln_launch"
STREAM = 0x1000
_ATTRIBUTES = {"cooperative": 2, "cluster": 4, "pdl": 6}  # CUDA's numbers
COUNTS = ("instantiations", "live", "executions", "captured", "open", "failures")
_TESTING = pathlib.Path(sys.argv[1]) / "tests" / "testing"
_Body = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))

ctypes.CDLL(str(pathlib.Path(kiln.__file__).parent / "libkiln_launch.so.0"))
handler = ctypes.CDLL(str(_TESTING / "libkiln_jax_on_host.so"))
handler.kiln_jax_error.restype = ctypes.c_char_p
handler.kiln_jax_type_id.restype = handler.kiln_jax_type_info.restype = ctypes.c_void_p
handler.kiln_jax_run_on.argtypes = (ctypes.c_void_p, ctypes.c_int32)
driver = ctypes.CDLL(str(_TESTING / "libfake_cuda.so"))
driver.fake_cuda_launch.restype = ctypes.c_char_p
driver.fake_cuda_launch.argtypes = (ctypes.c_size_t,)
driver.fake_cuda_launch_attribute.argtypes = (ctypes.c_size_t, ctypes.c_int)
driver.fake_cuda_launch_count.restype = ctypes.c_size_t
driver.fake_cuda_end_capture.restype = ctypes.c_void_p
for name in ("begin_capture", "end_capture", "destroy_graph"):
    getattr(driver, f"fake_cuda_{name}").argtypes = (ctypes.c_void_p,)
_bodies = []


def register():
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype = ctypes.py_object
    new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    jax.devices()
    kinds = {"type_id": handler.kiln_jax_type_id(), "type_info": handler.kiln_jax_type_info()}
    jax.ffi.register_ffi_type("kiln_launch_state", {kind: new_capsule(at, None, None) for kind, at in kinds.items()}, platform="cpu")
    stages = {"instantiate": handler.KilnJaxInstantiate, "execute": handler.KilnJaxExecute}
    jax.ffi.register_ffi_target(TARGET, {stage: jax.ffi.pycapsule(at) for stage, at in stages.items()}, platform="cpu")


def counts():
    out = (ctypes.c_uint64 * 6)()
    handler.kiln_jax_counts(out)
    return {**dict(zip(COUNTS, out)), "loaded": driver.fake_cuda_loaded(), "launched": driver.fake_cuda_launch_count()}


def calls(function):
    return driver.fake_cuda_calls(function.encode())


def launches(since):
    """What the driver was asked to launch, as dictionaries."""
    found = []
    for index in range(since, driver.fake_cuda_launch_count()):
        kernel, grid, _, _, stream, *arguments = driver.fake_cuda_launch(index).decode().split(" ")
        attributes = {name: value for name, at in _ATTRIBUTES.items() if (value := driver.fake_cuda_launch_attribute(index, at)) >= 0}
        found.append({"kernel": kernel, "grid": grid, "stream": int(stream, 16), "arguments": arguments, "attributes": attributes})
    return found


# --- Kernels ---------------------------------------------------------------------------------------------------------


class Kernel:
    """One that the driver has, computed by `body`: called with an array of `count` float32 for each pointer, and the scalars."""

    def __init__(self, name, types, body=None, count=8, hidden=2, descriptor=None, **metadata):
        """descriptor: the types of what a first argument stands for."""
        self.name, self._types = name, types
        letters = {"i8": "1", "i16": "2", "i32": "4", "i64": "8", "fp16": "2", "fp32": "4"}
        self.parameters = "".join("a" if kind[0] == "*" else letters[kind] for kind in types)
        sizes = [8 if letter == "a" else int(letter) for letter in self.parameters] + [8] * hidden
        if descriptor is not None:
            self.parameters = "d".ljust(len(descriptor), ".") + self.parameters
            types, sizes = [*descriptor, *types], [_BYTES.get(kind, 8) for kind in descriptor] + sizes
        driver.fake_cuda_define(name.encode(), (ctypes.c_size_t * len(sizes))(*sizes), len(sizes))
        self.binary = b"\x7fELF\x02\x01" + bytes(58) + name.encode()
        fields = dict(name=name, target={"backend": "cuda", "architecture": "90"}, shared_bytes=1024, num_warps=4, num_ctas=1, warp_size=32,
                      hidden_pointers=hidden, parameters=[{"name": f"p{place}", "type": kind} for place, kind in enumerate(types)])
        stage = {"stage": "cubin", "digest": hashlib.sha256(self.binary).hexdigest()}
        self.metadata = json.dumps({"metadata": {**fields, **metadata}, "stages": [stage]})
        if body is not None:
            self._body, self._count = body, count
            _bodies.append(_Body(self._run))  # as long as the driver has it
            driver.fake_cuda_run(name.encode(), _bodies[-1])

    def _run(self, arguments):
        values = []
        for place, letter in enumerate(self.parameters):
            if letter == "a":
                at = ctypes.cast(arguments[place], ctypes.POINTER(ctypes.c_void_p))[0]
                values.append(np.ctypeslib.as_array(ctypes.cast(at, ctypes.POINTER(ctypes.c_float)), (self._count,)))
            else:
                values.append(ctypes.string_at(arguments[place], int(letter)))
        self._body(*values)

    def attributes(self, *scalars, results=1, grid=(1, 1, 1), **others):
        fields = dict(name=self.name, binary=self.binary, metadata=self.metadata, parameters=self.parameters, scalars=b"".join(scalars),
                      grid_x=np.int32(grid[0]), grid_y=np.int32(grid[1]), grid_z=np.int32(grid[2]), zeroed="0" * results,
                      global_scratch=np.int32(-1), profile_scratch=np.int32(-1))
        return {**fields, **others}


def call(attributes, *arrays, out=8, aliases=None):
    """out: the lengths of the results."""
    shapes = [jax.ShapeDtypeStruct((count,), jnp.float32) for count in ([out] if isinstance(out, int) else out)]
    result = jax.ffi.ffi_call(TARGET, shapes[0] if isinstance(out, int) else shapes, input_output_aliases=aliases)
    return result(*arrays, **attributes)


def program(attributes, *arrays, donate=(), **shape):
    return jax.jit(lambda *given: call(attributes, *given, **shape), donate_argnums=donate).lower(*arrays).compile()


def numbers(begin=0):
    return jnp.arange(begin, begin + 8, dtype=jnp.float32)


@functools.lru_cache(maxsize=None)
def addition():

    def body(x, y, out, _):
        out[:] = x + y

    return Kernel("addition", ("*fp32", "*fp32", "*fp32", "i32"), body)


@functools.lru_cache(maxsize=None)
def accumulation():

    def body(x, out):
        out += x

    return Kernel("accumulation", ("*fp32", "*fp32"), body)


def added():
    return program(addition().attributes(np.int32(8).tobytes()), numbers(), numbers())


def failure(run):
    """What XLA says of it."""
    said = ""
    try:
        jax.block_until_ready(run())
    except Exception as error:
        said = str(error)
    gc.collect()
    return said


# --- What the tests ask for ------------------------------------------------------------------------------------------


def scalars_anywhere():
    kernel = Kernel("scalars", ("i8", "*fp32", "i64", "fp16", "*fp32", "i32"))
    given = (b"\x01", (2**40).to_bytes(8, "little"), b"\x03\x04", (7).to_bytes(4, "little"))
    before = driver.fake_cuda_launch_count()
    jax.block_until_ready(program(kernel.attributes(*given, grid=(2, 3, 4)), numbers())(numbers()))
    return launches(before)


def sums():
    x = numbers()
    return added()(x, numbers(10)).tolist()


def many_parameters(count):
    kernel = Kernel(f"many{count}", ("*fp32",) * count)
    before = driver.fake_cuda_launch_count()
    arrays = [numbers()] * (count - 1)
    jax.block_until_ready(program(kernel.attributes(), *arrays)(*arrays))
    return len(launches(before)[0]["arguments"])


TILE = "!tt.tensordesc<tensor<4x8xf32>>"
_BYTES = {TILE: 128, "i32": 4, "i1": 1}
FORMS = {"map": (TILE, "i32", "i32", "i64", "i64"), "pointer": ("*fp32", *["i64"] * 4, "i1", "i32", "i32", "i64", "i64")}
LAYOUT = {"swizzle": 3, "elem_size": 4, "elem_type": 7, "block_size": [4, 8], "fp4_padded": False}


def described(form, given=(2, 1, 0, 8, 8, 8, 1), parameters=None):
    """What a kernel is launched with that takes a descriptor over an array of 64 and a number; and the same under capture."""
    kernel = Kernel(f"described_{form}", ("i32", "*fp32"), descriptor=FORMS[form], tensor_descriptors=[LAYOUT] if form == "map" else [])
    attributes = kernel.attributes((7).to_bytes(4, "little"), descriptors=np.array(given, np.int64).tobytes())
    if parameters is not None:
        attributes.update(parameters=parameters, scalars=bytes(4 * parameters.count("4")))
    arrays = [jnp.zeros(64, jnp.float32) for _ in range(3)]
    before = driver.fake_cuda_launch_count()
    said = failure(lambda: program(attributes, arrays[0])(arrays[0]))
    if said:
        return said
    compiled = program(attributes, arrays[0])
    encoded = calls("cuTensorMapEncodeTiled")
    jax.block_until_ready([compiled(one) for one in arrays * 4])
    driver.fake_cuda_begin_capture(STREAM)
    jax.block_until_ready(compiled(arrays[0]))
    graph = driver.fake_cuda_end_capture(STREAM)
    driver.fake_cuda_destroy_graph(graph)
    return {"arguments": [one["arguments"] for one in launches(before)[1:]], "addresses": [one.unsafe_buffer_pointer() for one in arrays],
            "encoded": calls("cuTensorMapEncodeTiled") - encoded, "is_whole": bool(graph)}


def shared_loads():
    """Counts while two programs have a kernel, one has it, none has it."""
    first, second = added(), added()
    jax.block_until_ready([first(numbers(), numbers()), second(numbers(), numbers())])
    found = [counts()]
    del first
    gc.collect()
    found.append(counts())
    del second
    gc.collect()
    return [*found, counts()]


def scratch(result, length=6, what="global_scratch"):
    """A grid of 3 programs, each with 8 bytes of scratch."""
    kernel = Kernel("scratched", ("*fp32", "*fp32"), **{f"{what}_bytes": 8, f"{what}_align": 4})
    before, allocations = driver.fake_cuda_launch_count(), calls("cuMemAllocAsync")
    attributes = kernel.attributes(results=2, grid=(3, 1, 1), **{what: np.int32(result)})
    error = failure(lambda: program(attributes, numbers(), out=(8, length))(numbers()))
    return {"error": error, "launches": launches(before), "allocations": calls("cuMemAllocAsync") - allocations}


def launched(**metadata):
    """How a kernel that says so is launched."""
    kernel, before = Kernel("special", ("*fp32", "*fp32"), **metadata), driver.fake_cuda_launch_count()
    jax.block_until_ready(program(kernel.attributes(), numbers())(numbers()))
    one, = launches(before)
    return one["attributes"]


def without_parameter():
    """The kernel writes in place, and has one parameter for argument and result."""
    kernel = Kernel("in_place", ("*fp32", "*fp32"), lambda x, given: np.add(given, x, out=given))
    compiled = program(kernel.attributes(zeroed="-"), jnp.ones(8, jnp.float32), numbers(100), aliases={1: 0})
    return compiled(jnp.ones(8, jnp.float32), numbers(100)).tolist()


def zeroed(flags, grid=1):
    attributes = accumulation().attributes(zeroed=flags, grid=(grid, 1, 1))
    before = counts()["launched"]
    result = program(attributes, numbers())(numbers()).tolist()
    return {"result": result, "launches": counts()["launched"] - before}


def aliased(donate):
    """The kernel adds to its own argument."""
    kernel = Kernel("alias", ("*fp32", "*fp32", "*fp32"), lambda x, given, out: np.add(given, x, out=out))
    ones, given = jnp.ones(8, jnp.float32), numbers(100)
    compiled = program(kernel.attributes(), ones, given, aliases={1: 0}, donate=(1,) if donate else ())
    before = driver.fake_cuda_launch_count()
    result = compiled(ones, given).tolist()
    _, read, written = launches(before)[0]["arguments"][:3]
    return {"result": result, "in_place": read == written, "given": None if donate else given.tolist()}


def from_threads(threads, times):
    """How many of so many executions gave something wrong."""
    gc.collect()  # earlier programs unload their kernels
    before = counts()
    compiled = added()
    wrong = []

    def run(number):
        x = numbers(number)
        for _ in range(times):
            if compiled(x, x).tolist() != (2 * np.arange(number, number + 8)).tolist():
                wrong.append(number)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    after = counts()
    return {"wrong": len(wrong), "executions": after["executions"] - before["executions"], "loads": after["loaded"] - before["loaded"]}


def captured():
    """A graph of a memset and a launch, whose program ends before it."""
    kernel = Kernel("captured", ("*fp32", "*fp32"))
    before = counts()
    compiled = program(kernel.attributes(zeroed="1"), numbers())
    driver.fake_cuda_begin_capture(STREAM)
    jax.block_until_ready(compiled(numbers()))
    graph = driver.fake_cuda_end_capture(STREAM)
    during = counts()
    del compiled
    gc.collect()
    kept = counts()
    driver.fake_cuda_destroy_graph(graph)
    return {"is_whole": bool(graph), "captured": during["captured"] - before["captured"], "loaded": kept["loaded"] - before["loaded"],
            "live": kept["live"] - before["live"]}


def with_attribute(name, value):
    """What XLA says of a call with that value; {"i": …} stands for an i32, null for none at all."""
    attributes = addition().attributes(np.int32(8).tobytes())
    if value is None:
        del attributes[name]
    else:
        attributes[name] = np.int32(value["i"]) if isinstance(value, dict) else value
    before = counts()
    error = failure(lambda: program(attributes, numbers(), numbers())(numbers(), numbers()))
    after = counts()
    return {"error": error, "failures": after["failures"] - before["failures"], "live": after["live"] - before["live"]}


def with_unknown_attribute():
    attributes = addition().attributes(np.int32(8).tobytes(), of_a_later_version="x")
    return program(attributes, numbers(), numbers())(numbers(), numbers()).tolist()


def failed_launch():
    compiled = added()
    jax.block_until_ready(compiled(numbers(), numbers()))
    before = counts()["failures"]
    driver.fake_cuda_fail(b"cuLaunchKernelEx", 700, 2)  # no context is current here: tried in the kernel's, too
    error = failure(lambda: compiled(numbers(), numbers()))
    return {"error": error, "failures": counts()["failures"] - before, "again": compiled(numbers(), numbers()).tolist()}


def on_device(device):
    compiled = added()
    handler.kiln_jax_run_on(STREAM, device)
    error = failure(lambda: compiled(numbers(), numbers()))
    handler.kiln_jax_run_on(STREAM, 0)
    return error


def other_architecture():
    kernel = Kernel("other", ("*fp32", "*fp32"), target={"backend": "cuda", "architecture": "100"})
    return failure(lambda: program(kernel.attributes(), numbers())(numbers()))


def programs_again(times):
    before = counts()
    for _ in range(times):
        jax.block_until_ready(added()(numbers(), numbers()))
        jax.clear_caches()
    gc.collect()
    after = counts()
    return {name: after[name] - before[name] for name in ("instantiations", "live", "open", "loaded")}


def unopened():
    """What XLA said before the driver was opened."""
    return _unopened


def other_driver(path):
    return [handler.kiln_jax_open(b"cuda", path.encode()), handler.kiln_jax_error().decode()]


def main():
    register()
    global _unopened
    _unopened = failure(lambda: added()(numbers(), numbers()))
    path = str(_TESTING / "libfake_cuda.so").encode()
    for _ in range(2):
        assert handler.kiln_jax_open(b"cuda", path) == 0, handler.kiln_jax_error()
    driver.fake_cuda_use_host_memory()
    for line in sys.stdin:
        (name, arguments), = json.loads(line).items()
        try:
            answer = globals()[name](**arguments)
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps({"answer": answer}), flush=True)


if __name__ == "__main__":
    main()
