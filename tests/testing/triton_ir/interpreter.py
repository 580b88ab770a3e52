"""Runs Triton IR on NumPy's arrays, one program after the other. It shares nothing with what writes the IR.

An operation becomes a Python function once, as programs and loops run it thousands of times. Operations on constants alone run then, once.

The text is what generic_form.py prints. Floats are computed in their own type, and functions of the mathematical libraries in f64. An access
beyond a buffer, an integer division by zero and a shift by too many bits are errors: a GPU would hide them.
"""

import functools
import itertools
import re

import numpy

from triton_ir import operations
from triton_ir.memory import Memory, from_bits, number_type, size_of
from triton_ir.parser import parse

_RMW = {
    1: numpy.bitwise_and,
    2: numpy.bitwise_or,
    3: numpy.bitwise_xor,
    4: numpy.add,
    5: numpy.add,
    6: max,
    7: min,
    8: lambda old, new: max(old, new, key=lambda value: int(value) % (1 << 8 * value.nbytes)),
    9: lambda old, new: min(old, new, key=lambda value: int(value) % (1 << 8 * value.nbytes)),
    10: lambda old, new: new,
}
_TERMINATORS = ("scf.yield", "scf.condition", "tt.reduce.return", "tt.return")
_CASTS = re.compile(r"arith\.(ext|trunc|bitcast).*|arith\.\w+to\w+|tt\.(bitcast|fp_to_fp)")


def _integer(text):
    return int(text.split(":")[0])


def _constant(text, type_):
    """ "1 : i32", "true", "dense<0xFF800000> : tensor<4xf32>" """
    number = text.rsplit(" : ", 1)[0]
    if number.startswith("dense<"):
        number = number[6:-1]
    if number in ("true", "false"):
        value = numpy.array(number == "true")
    elif re.fullmatch("0x[0-9A-F]+", number) and type_.element[0] in "fb":
        word = "u4" if type_.element == "f32" else "u8" if type_.element == "f64" else "u2"
        value = from_bits(type_.element, numpy.array(int(number, 16), word))
    else:
        value = numpy.array(float(number) if "." in number else int(number)).astype(number_type(type_.element))
    return numpy.broadcast_to(value, type_.shape)


class Kernel:
    def __init__(self, generic_form):
        body, self._types = parse(generic_form)
        self._values = {}  # of the program that runs; the generic form gives no name twice
        self._names = set()
        self._constants = set()
        self._memory = self._position = self._grid = None
        self._run = self._block(body)

    def run(self, arguments, grid):
        """Arrays for pointers, which the kernel changes, and numbers. `grid`: one to three extents."""
        self._memory = Memory([argument for argument in arguments if isinstance(argument, numpy.ndarray)])
        values, buffers = [], itertools.count()
        for argument, type_ in zip(arguments, self._types, strict=True):
            assert isinstance(argument, numpy.ndarray) == type_.is_pointer
            number = self._memory.address(next(buffers)) if type_.is_pointer else argument
            values.append(numpy.array(number, numpy.int64 if type_.is_pointer else number_type(type_.element))[()])
        self._grid = (*grid, 1, 1)[:3]
        with numpy.errstate(all="ignore"):
            for z, y, x in itertools.product(*(range(extent) for extent in reversed(self._grid))):
                self._position = x, y, z
                self._run(values)

    def _block(self, block, has_types=True):
        """A function of the block's arguments. It returns what the last operation passes on."""
        values, arguments = self._values, block.arguments
        *operations_, last = block.operations
        assert last.name in _TERMINATORS, last.name
        steps = [step for step in (self._step(operation, has_types) for operation in operations_) if step is not None]
        passed_on = last.operands

        def run(given):
            values.update(zip(arguments, given, strict=True))
            for step in steps:
                step()
            return [values[name] for name in passed_on]

        return run

    def _step(self, operation, has_types):
        """A function that computes the operation's results from `values`. None: they are constants."""
        values, operands, results = self._values, operation.operands, operation.results
        assert self._names.isdisjoint(results), operation
        self._names.update(results)
        shapes = [type_.shape if has_types else None for type_ in operation.result_types]
        function, is_pure = self._function(operation)

        def step():
            value = values[result] = function(*[values[name] for name in operands])
            assert value.shape == shape or shape is None, operation

        def step_of_several():
            for name, value, shape in zip(results, function(*[values[name] for name in operands]), shapes, strict=True):
                values[name] = value
                assert value.shape == shape or shape is None, operation

        if operation.regions or not results:
            return step_of_several
        (result,), (shape,) = results, shapes
        if not is_pure or not self._constants.issuperset(operands):
            return step
        with numpy.errstate(all="ignore"):
            step()
        self._constants.add(result)
        return None

    def _function(self, operation):
        """(function, is_pure). The function makes the result of the operands, or a list where there are regions or no result."""
        if operation.name in operations.ELEMENTWISE:
            return operations.ELEMENTWISE[operation.name], True
        for prefix, is_pure in (("_pure_", True), ("_", False)):
            own = getattr(self, prefix + operation.name.replace(".", "_"), None)
            if own is not None:
                return own(operation), is_pure
        if _CASTS.fullmatch(operation.name):
            before, after = operation.operand_types[0], operation.result_types[0]
            if before.is_pointer:
                return lambda value: value, True
            return lambda value: operations.cast(operation.name, value, before.element, after.element), True
        raise NotImplementedError(operation.name)

    def _pure_arith_constant(self, operation):
        value = _constant(operation.properties["value"], operation.result_types[0])
        return lambda: value

    def _pure_arith_cmpi(self, operation):
        return functools.partial(operations.compare_integers, _integer(operation.properties["predicate"]))

    def _pure_arith_cmpf(self, operation):
        return functools.partial(operations.compare_floats, _integer(operation.properties["predicate"]))

    def _pure_tt_extern_elementwise(self, operation):
        return operations.library_function(operation.properties["symbol"].strip('"'))

    def _tt_get_program_id(self, operation):
        axis = _integer(operation.properties["axis"])
        return lambda: numpy.int32(self._position[axis])

    def _tt_get_num_programs(self, operation):
        axis = _integer(operation.properties["axis"])
        return lambda: numpy.int32(self._grid[axis])

    def _pure_tt_make_range(self, operation):
        start, end = (_integer(operation.properties[name]) for name in ("start", "end"))
        return lambda: numpy.arange(start, end, dtype=numpy.int32)

    def _pure_tt_splat(self, operation):
        shape = operation.result_types[0].shape

        def splat(value):
            result = numpy.empty(shape, value.dtype)
            result[...] = value
            return result

        return splat

    _pure_tt_broadcast = _pure_tt_splat

    def _pure_tt_expand_dims(self, operation):
        axis = _integer(operation.properties["axis"])
        return lambda value: numpy.expand_dims(value, axis)

    def _pure_tt_reshape(self, operation):
        shape = operation.result_types[0].shape
        return lambda value: value.reshape(shape)

    def _pure_tt_trans(self, operation):
        order = [int(axis) for axis in re.findall(r"\d+", operation.properties["order"].split(":")[1])]
        return lambda value: value.transpose(order)

    def _pure_tt_dot(self, operation):
        def dot(left, right, sums):
            wide = numpy.float64 if left.dtype.kind == "f" else sums.dtype
            return (left.astype(wide) @ right.astype(wide) + sums).astype(sums.dtype)

        return dot

    def _pure_tt_addptr(self, operation):
        size = size_of(operation.operand_types[0].element)
        return lambda pointer, offset: pointer + offset.astype(numpy.int64) * size

    def _tt_load(self, operation):
        element = operation.operand_types[0].element
        return lambda pointer, mask=None, other=0: self._memory.load(pointer, element, mask, other)

    def _tt_store(self, operation):
        element = operation.operand_types[0].element

        def store(pointer, value, mask=None):
            self._memory.store(pointer, element, value, mask)
            return ()

        return store

    def _tt_atomic_rmw(self, operation):
        element = operation.operand_types[0].element
        function = _RMW[_integer(operation.properties["atomic_rmw_op"])]
        return lambda pointer, value, mask=None: self._memory.update(pointer, element, value, mask, function)

    def _tt_reduce(self, operation):
        axis = _integer(operation.properties["axis"])
        # The region's types are those of one element.
        combine = self._block(operation.regions[0], has_types=False)

        def reduce(*operands):
            while operands[0].shape[axis] > 1:
                halves = [numpy.split(operand, 2, axis) for operand in operands]
                operands = combine([half[0] for half in halves] + [half[1] for half in halves])
            return [operand.squeeze(axis) for operand in operands]

        return reduce

    def _scf_for(self, operation):
        body = self._block(operation.regions[0])

        def loop(lower, upper, step, *carried):
            for position in range(int(lower), int(upper), int(step)):
                carried = body([lower.dtype.type(position), *carried])
            return carried

        return loop

    def _scf_if(self, operation):
        branches = [self._block(region) if region.operations else lambda given: [] for region in operation.regions]
        return lambda condition: branches[0 if condition else 1]([])

    def _scf_while(self, operation):
        before, body = (self._block(region) for region in operation.regions)

        def loop(*carried):
            while True:
                goes_on, *carried = before(carried)
                if not goes_on:
                    return carried
                carried = body(carried)

        return loop
