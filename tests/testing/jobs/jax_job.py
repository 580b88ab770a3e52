"""A job with JAX for CPU, Triton and Kiln. It evaluates the expressions that a test sends, one a line, and answers with the value or the
error. What expressions use: JAX, `kernels` (jax_kernels.py), kiln.jax, and the functions below.

    <toolchain>/bin/python jax_job.py
"""

import ast
import ctypes
import dataclasses
import json
import os
import struct
import sys
import time
import traceback
import types
import zlib

import jax
import jax.numpy as jnp
import numpy as np

import jax_kernels as kernels
import kiln
import kiln.jax
from kiln.jax import TensorDescriptor, explain, report, triton_call

_BYTES = ("binary", "scalars", "descriptors", "opaque")
X = jnp.arange(256, dtype=jnp.float32)


def shape(*lengths, dtype="float32"):
    return jax.ShapeDtypeStruct(lengths, jnp.dtype(dtype))


def call(kernel, *arguments, out=X, grid=(1,), capability=90, **more):
    """A call for a GPU that is not here."""
    return triton_call(*arguments, kernel=kernel, out_shape=out, grid=grid, compute_capability=capability, **more)


def lower(function, *arguments, platform="cuda"):
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,))


def calls(function, *arguments, platform="cuda"):
    """The custom calls of a program: target, attributes, aliases (operand to result), types of the results."""
    from kiln.jax._explain import _operations
    found = []
    for operation in _operations(lower(function, *arguments, platform=platform).compiler_ir("stablehlo").operation):
        if operation.name == "stablehlo.custom_call" and "mhlo.frontend_attributes" in operation.attributes:
            found.append({"target": operation.attributes["call_target_name"].value, **_config(operation), "aliases": _aliases(operation),
                          "results": [str(one.type) for one in operation.results]})
    return found


def lowered_call(kernel, *arguments, platform="cuda", **more):
    """The one custom call of a program that does nothing else; arrays among the arguments are its operands."""
    bases = [one.base if isinstance(one, TensorDescriptor) else one for one in arguments]
    places = [place for place, one in enumerate(bases) if isinstance(one, (jax.Array, np.ndarray, jax.ShapeDtypeStruct))]

    def program(*arrays):
        given = list(arguments)
        for place, array in zip(places, arrays):
            is_described = isinstance(given[place], TensorDescriptor)
            given[place] = dataclasses.replace(given[place], base=array) if is_described else array
        return call(kernel, *given, **more)

    return calls(program, *(bases[place] for place in places), platform=platform)[0]


def _config(operation):
    if "mhlo.backend_config" not in operation.attributes:
        text = operation.attributes["backend_config"].value_bytes  # of an older target
        return {"opaque": text.hex()} if text else {}
    return {entry.name: entry.attr.value_bytes.hex() if entry.name in _BYTES else entry.attr.value
            for entry in operation.attributes["mhlo.backend_config"]}


def _aliases(operation):
    from jax._src.lib.mlir.dialects import hlo
    pairs = [hlo.OutputOperandAlias(one) for one in operation.attributes["output_operand_aliases"]]
    return {one.operand_index: next(iter(one.output_tuple_indices), 0) for one in pairs}


def as_pytorch(kernel, *arguments, capability=90, **keywords):
    """Hash and PTX of what Triton compiles for a call from PyTorch. Arrays are their types."""
    from stand_in_driver import StandInDriver
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver
    from triton.runtime.jit import MockTensor
    driver.set_active(StandInDriver(GPUTarget("cuda", capability, 32)))
    kernel.device_caches.clear()  # it remembers the first capability
    made = kernel.warmup(*(MockTensor(one) if isinstance(one, str) else one for one in arguments), grid=(1,), **keywords)
    return {"hash": made.hash, "ptx": made.asm["ptx"]}


def described(*lengths, block=(16, 32), dtype="float16", shape=None, strides=None, base=None, **more):
    """A descriptor over an array of ones, or over `base`."""
    base = jnp.ones(lengths, dtype) if base is None else base
    whole = TensorDescriptor.from_tensor(base, block, **more)
    return TensorDescriptor(base, shape or whole.shape, strides or whole.strides, block, **more)


def described_in_pytorch(*lengths, block=(16, 32), dtype="float16"):
    """Triton's own, over what it takes for a tensor."""
    from triton.tools import tensor_descriptor
    base = types.SimpleNamespace(dtype=np.dtype(dtype), data_ptr=lambda: 0)
    return tensor_descriptor.TensorDescriptor(base, list(lengths), [lengths[1], 1], list(block))


def as_jax(kernel, *arguments, **more):
    """The same of the kernel of a call."""
    from kiln.jax import _compiled, _lowering
    _compiled._kernels.clear()
    _lowering._launches.clear()
    lowered_call(kernel, *arguments, **more)
    made, = _compiled._kernels.values()
    return {"hash": made.metadata["hash"], "ptx": made.ptx}


def specializations(function):
    """How often a kernel is specialized for a call while the function runs."""
    from kiln.jax import _lowering
    stock, seen = _lowering.specialized, []
    _lowering.specialized = lambda *given: seen.append(given) or stock(*given)
    try:
        function()
    finally:
        _lowering.specialized = stock
    return len(seen)


def order_of_work(function):
    """Of the kernels that are compiled while the function runs: when each is lowered, which takes a while, and when its answer is taken."""
    from kiln._plugin import pipeline, source_dependencies
    from triton.compiler import ASTSource
    lower, answer, seen = ASTSource.make_ir, pipeline._answer, []

    def slowly(source, *arguments, **more):
        seen.append(f"lower {source_dependencies._symbol(source)}")
        time.sleep(0.05)
        return lower(source, *arguments, **more)

    ASTSource.make_ir = slowly
    pipeline._answer = lambda artifact, *more: seen.append(f"take {artifact.metadata.name}") or answer(artifact, *more)
    try:
        function()
    finally:
        ASTSource.make_ir, pipeline._answer = lower, answer
    return seen


def parses(name, function):
    """How often the text of the function of that name is parsed while the other one runs."""
    parse, texts = ast.parse, []
    ast.parse = lambda text, *more, **named: texts.append(text) or parse(text, *more, **named)
    try:
        function()
    finally:
        ast.parse = parse
    return sum(text.startswith(f"def {name}(") for text in texts)


def counted():
    """What Kiln's report says of compiles."""
    now = kiln.report()
    return {"compiled": now.compiled, "found": sum(now.hits.values()) + now.joined, "local": sum(now.local.values())}


def compile_for_another_architecture(number, stages=None):
    """Lets Triton answer with kernels for it, which say that they are for the one that was asked for. stages: these alone are for it."""
    from triton import compiler
    names["stock_compile"] = stock = names.get("stock_compile", compiler.compile)

    def compile(source, target, options):
        made = stock(source, target=type(target)(target.backend, number, target.warp_size))
        if stages:
            other, made = made, stock(source, target=target)
            made.asm.update((stage, other.asm[stage]) for stage in stages)
        made.metadata = made.metadata._replace(target=target)
        return made

    compiler.compile = compile


def use_builtin_targets(*targets):
    """As the plugin of a jaxlib for CUDA has them, and with messages. Here the messages are JSON of what they were given."""
    from jax._src.lib import gpu_triton
    plugin = gpu_triton._cuda_triton = types.SimpleNamespace(registrations=lambda: dict.fromkeys(targets))
    if "triton_kernel_call" in targets:
        plugin.get_custom_call = None
    gpu_triton.TritonKernel = lambda *fields: fields
    gpu_triton.TritonKernelCall = _BuiltinCall
    gpu_triton.create_array_parameter = lambda bytes_to_zero, divisibility: ("array", bytes_to_zero, divisibility)
    gpu_triton.create_scalar_parameter = lambda value, kind: (kind, value)


class _BuiltinCall:

    def __init__(self, kernel, x, y, z, parameters):
        self._fields = {"kernel": kernel, "grid": (x, y, z), "parameters": parameters}

    def to_proto(self, name, metadata):
        return json.dumps({**self._fields, "name": name, "metadata": metadata.decode()}).encode()


def message(opaque):
    """What a builtin target is given, from the custom call's attribute."""
    return json.loads(zlib.decompress(bytes.fromhex(opaque)))


class StandIn:
    """Launches of programs for the CPU on the stand-in driver, which takes JAX's arrays for device memory: kernels compute in Python.
    Needs the handler for the host."""

    def __init__(self, folder):
        self._folder, self._seen, self._bodies = folder, [], []
        self._path = f"{folder}/libfake_cuda.so"
        self._driver = ctypes.CDLL(self._path)
        self._driver.fake_cuda_take_time.argtypes = (ctypes.c_char_p, ctypes.c_float)
        self._driver.fake_cuda_launch_count.restype = ctypes.c_size_t
        self._driver.fake_cuda_use_host_memory()
        self._driver.fake_cuda_make_context()
        assert not ctypes.CDLL(os.environ["KILN_JAX_LIBRARY"]).kiln_jax_open(b"cuda", self._path.encode())
        from kiln.jax import _devices
        _devices.add_platform("cpu", kiln.Runtime(self._path))

    def define(self, name, types, compute, milliseconds=1.0, count=256):
        """A kernel of that name. types: "a" for an array of float32, or struct's letter. compute: called with arrays and values."""
        sizes = [8 if one == "a" else struct.calcsize(one) for one in types] + [8, 8]
        self._driver.fake_cuda_define(name.encode(), (ctypes.c_size_t * len(sizes))(*sizes), len(sizes))
        self._driver.fake_cuda_take_time(name.encode(), milliseconds)

        def body(pointers):
            raw = [ctypes.string_at(pointers[place], size) for place, size in enumerate(sizes)]
            values = [_floats(int.from_bytes(one, "little"), count) if kind == "a" else struct.unpack("<" + kind, one)[0]
                      for kind, one in zip(types, raw)]
            self._seen.append((name, [one[:2].tolist() if kind == "a" else one for kind, one in zip(types, values)]))
            compute(*values)

        self._bodies.append(ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))(body))
        self._driver.fake_cuda_run(name.encode(), self._bodies[-1])

    def launches(self):
        return self._driver.fake_cuda_launch_count()

    def seen(self):
        """Of each launch since the last question: the kernel, and what it found in its arguments (of arrays the first two)."""
        seen, self._seen = self._seen, []
        return seen


def _floats(address, count):
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (count,))


def use_stand_in(folder):
    """`driver` is one, with the kernels of the tests."""
    driver = names["driver"] = StandIn(folder)

    def copy_scaled(x, n, factor, out):
        out[:n] = x[:n] * factor

    def count(x, added, out):
        out[:] += x + added

    def accumulate(x, sums, n):
        sums[:n] += x[:n]

    def doubled(x, n, out):
        out[:n] = x[:n] * 2

    def added(x, sums, n, out):
        sums[:n] += x[:n]
        out[:n] = sums[:n]

    def filled(n, out):
        out[:n] = n

    def copy_tile(x, rows, columns, stride, _, factor, out, *__):
        """Of the descriptor's own words: the fake driver writes the address as the fifth."""
        source, target = (_floats(struct.unpack("<16Q", one)[4], rows * columns) for one in (x, out))
        target[:] = source * factor

    def sorted_chunks(x, rows, out, stride):
        """16 rows; their places are int32."""
        for row, to in enumerate(rows[:16].view(np.int32)):
            out[to * stride:(to + 1) * stride] = x[row * stride:(row + 1) * stride]

    def number_rows(rows, sums, count):
        found = rows[:count].view(np.int32)
        rows[:count].view(np.int32)[:], sums[:1].view(np.int32)[:] = found + sums[:1].view(np.int32), found.sum()

    driver.define("number_rows", "aai", number_rows, count=16)
    for block, milliseconds in ((64, 2.0), (128, 1.0)):
        driver.define(f"sort_chunks_{block}", "aaai", sorted_chunks, milliseconds, count=16 * 48)
    described = ["128s", *"iiqq"]
    for rows, milliseconds in ((8, 3.0), (16, 1.0), (32, 2.0)):
        driver.define(f"tiled_{rows}", [*described, "f", *described], copy_tile, milliseconds)
    driver.define("scale", "aifa", copy_scaled)
    driver.define("count", "aia", count)
    driver.define("accumulate", "aai", accumulate)
    for block, milliseconds in ((64, 3.0), (128, 1.0), (256, 2.0)):
        driver.define(f"doubled_{block}", "aia", doubled, milliseconds)
        driver.define(f"filled_{block}", "ia", filled, milliseconds)
        driver.define(f"added_{block}", "aaia", added, milliseconds)


def first(arrays):
    """The first two values of each array."""
    return [np.asarray(one)[:2].tolist() for one in jax.tree.leaves(arrays)]


def raising(error):
    """A function that raises it, whatever it is given."""

    def function(*_, **__):
        raise error

    return function


names = dict(globals())
names["names"] = names
for line in sys.stdin:
    try:
        answer = {"value": eval(json.loads(line), names)}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    print(json.dumps(answer, default=str), flush=True)
