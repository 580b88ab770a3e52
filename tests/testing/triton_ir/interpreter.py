"""Runs Triton IR on NumPy's arrays, one program after the other. It shares nothing with what writes the IR.

The text is what generic_form.py prints. Floats are computed in their own type, and functions of the mathematical libraries in f64. An access
beyond a buffer, an integer division by zero and a shift by too many bits are errors: a GPU would hide them.
"""

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
        self._body, self._types = parse(generic_form)

    def run(self, arguments, grid):
        """Arrays for pointers, which the kernel changes, and numbers. `grid`: one to three extents."""
        memory = Memory([argument for argument in arguments if isinstance(argument, numpy.ndarray)])
        values, buffers = [], itertools.count()
        for argument, type_ in zip(arguments, self._types, strict=True):
            assert isinstance(argument, numpy.ndarray) == type_.is_pointer
            number = memory.address(next(buffers)) if type_.is_pointer else argument
            values.append(numpy.array(number, numpy.int64 if type_.is_pointer else number_type(type_.element)))
        grid = (*grid, 1, 1)[:3]
        with numpy.errstate(all="ignore"):
            for z, y, x in itertools.product(*(range(extent) for extent in reversed(grid))):
                _Program(memory, (x, y, z), grid).block(self._body, values, {})


class _Program:
    def __init__(self, memory, position, grid):
        self._memory = memory
        self._position = position
        self._grid = grid

    def block(self, block, arguments, outer):
        """What its last operation passes on."""
        values = dict(outer)
        values.update(zip(block.arguments, arguments, strict=True))
        for operation in block.operations:
            operands = [values[name] for name in operation.operands]
            if operation.name in ("scf.yield", "scf.condition", "tt.reduce.return", "tt.return"):
                return operands
            results = self._operation(operation, operands, values)
            for name, value, type_ in zip(operation.results, results, operation.result_types, strict=True):
                values[name] = numpy.asarray(value)
                assert block.arguments or values[name].shape == type_.shape, operation
        return []

    def _operation(self, operation, operands, values):
        own = getattr(self, "_" + operation.name.replace(".", "_"), None)
        if own is not None:
            return own(operation, operands, values)
        if operation.name in operations.ELEMENTWISE:
            return [operations.ELEMENTWISE[operation.name](*operands)]
        if re.fullmatch(r"arith\.(ext|trunc|bitcast).*|arith\.\w+to\w+|tt\.(bitcast|fp_to_fp)", operation.name):
            before, after = operation.operand_types[0], operation.result_types[0]
            if before.is_pointer:
                return operands
            return [operations.cast(operation.name, operands[0], before.element, after.element)]
        raise NotImplementedError(operation.name)

    def _arith_constant(self, operation, operands, values):
        return [_constant(operation.properties["value"], operation.result_types[0])]

    def _arith_cmpi(self, operation, operands, values):
        return [operations.compare_integers(_integer(operation.properties["predicate"]), *operands)]

    def _arith_cmpf(self, operation, operands, values):
        return [operations.compare_floats(_integer(operation.properties["predicate"]), *operands)]

    def _tt_extern_elementwise(self, operation, operands, values):
        return [operations.library_function(operation.properties["symbol"].strip('"'))(*operands)]

    def _tt_get_program_id(self, operation, operands, values):
        return [numpy.int32(self._position[_integer(operation.properties["axis"])])]

    def _tt_get_num_programs(self, operation, operands, values):
        return [numpy.int32(self._grid[_integer(operation.properties["axis"])])]

    def _tt_make_range(self, operation, operands, values):
        start, end = (_integer(operation.properties[name]) for name in ("start", "end"))
        return [numpy.arange(start, end, dtype=numpy.int32)]

    def _tt_splat(self, operation, operands, values):
        return [numpy.broadcast_to(operands[0], operation.result_types[0].shape)]

    _tt_broadcast = _tt_splat

    def _tt_expand_dims(self, operation, operands, values):
        return [numpy.expand_dims(operands[0], _integer(operation.properties["axis"]))]

    def _tt_reshape(self, operation, operands, values):
        return [operands[0].reshape(operation.result_types[0].shape)]

    def _tt_trans(self, operation, operands, values):
        return [operands[0].transpose([int(axis) for axis in re.findall(r"\d+", operation.properties["order"].split(":")[1])])]

    def _tt_dot(self, operation, operands, values):
        left, right, sums = operands
        wide = numpy.float64 if left.dtype.kind == "f" else sums.dtype
        return [(left.astype(wide) @ right.astype(wide) + sums).astype(sums.dtype)]

    def _tt_addptr(self, operation, operands, values):
        pointer, offset = operands
        return [pointer + offset.astype(numpy.int64) * size_of(operation.operand_types[0].element)]

    def _tt_load(self, operation, operands, values):
        pointer, mask, other = (*operands, True, 0)[:3] if len(operands) != 2 else (*operands, 0)
        element = operation.operand_types[0].element
        return [self._memory.load(pointer, element, numpy.broadcast_to(mask, pointer.shape), other)]

    def _tt_store(self, operation, operands, values):
        pointer, value, mask = (*operands, True)[:3]
        element = operation.operand_types[0].element
        self._memory.store(pointer, element, value, numpy.broadcast_to(mask, pointer.shape))
        return []

    def _tt_atomic_rmw(self, operation, operands, values):
        pointer, value, mask = (*operands, True)[:3]
        function = _RMW[_integer(operation.properties["atomic_rmw_op"])]
        element = operation.operand_types[0].element
        return [self._memory.update(pointer, element, value, numpy.broadcast_to(mask, pointer.shape), function)]

    def _tt_reduce(self, operation, operands, values):
        axis = _integer(operation.properties["axis"])
        while operands[0].shape[axis] > 1:
            halves = [numpy.split(operand, 2, axis) for operand in operands]
            operands = self.block(operation.regions[0], [half[0] for half in halves] + [half[1] for half in halves], values)
        return [operand.squeeze(axis) for operand in operands]

    def _scf_for(self, operation, operands, values):
        lower, upper, step, *carried = operands
        for position in range(int(lower), int(upper), int(step)):
            carried = self.block(operation.regions[0], [numpy.asarray(position, lower.dtype), *carried], values)
        return carried

    def _scf_if(self, operation, operands, values):
        chosen = [region for region in operation.regions if region.operations][0 if operands[0] else 1 :]
        return self.block(chosen[0], [], values) if chosen else []

    def _scf_while(self, operation, operands, values):
        before, body = operation.regions
        while True:
            goes_on, *operands = self.block(before, operands, values)
            if not goes_on:
                return operands
            operands = self.block(body, operands, values)
