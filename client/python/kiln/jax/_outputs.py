"""The grid of a launch, and what becomes of its outputs: zeroed or aliased."""

import operator
from typing import Any, Callable, Collection, Dict, Mapping, Sequence, Tuple, Union

from kiln.jax._arguments import ArrayArgument

Grid = Tuple[int, int, int]
_GRID_END = 2**31  # the most that any GPU takes; launch_of looks at CUDA's limits along y and z


def grid_of(kernel: str, given: Any, keywords: Mapping[str, Any]) -> Grid:
    """Programs along x, y, z. given: a number, one to three of them, or a function of the metaparameters. TypeError; ValueError."""
    grid = given(dict(keywords)) if callable(given) else given
    lengths = (grid,) if hasattr(grid, "__index__") else grid
    if not isinstance(lengths, (tuple, list)):
        raise TypeError(f"{kernel}: grid: {grid!r} is neither a number nor a tuple of numbers")
    if not 1 <= len(lengths) <= 3:
        raise ValueError(f"{kernel}: grid: {tuple(lengths)} has {len(lengths)} lengths; it has one to three")
    try:
        whole = [operator.index(length) for length in lengths]
    except TypeError:
        raise TypeError(f"{kernel}: grid: {tuple(lengths)} are not whole numbers") from None
    if not all(0 <= length < _GRID_END for length in whole):
        raise ValueError(f"{kernel}: grid: {tuple(whole)} is not within 0 and {_GRID_END - 1}")
    x, y, z = (*whole, 1, 1)[:3]
    return (x, y, z)


def zeroed_of(kernel: str, given: Any, keywords: Mapping[str, Any], names: Sequence[str]) -> Tuple[bool, ...]:
    """Whether each output is zeroed before a launch. given: places or names of outputs, or a function of the metaparameters that returns
    such. names: of the outputs' parameters. TypeError; ValueError."""
    listed = given(dict(keywords)) if callable(given) else given
    if isinstance(listed, str) or hasattr(listed, "__index__"):
        listed = (listed,)
    zeroed = [False] * len(names)
    for one in listed:
        if isinstance(one, str):
            if one not in names:
                raise ValueError(f"{kernel}: zeroed_outputs: {one!r} is no output; they are {', '.join(names)}")
            zeroed[names.index(one)] = True
        elif hasattr(one, "__index__"):
            if not 0 <= operator.index(one) < len(names):
                raise ValueError(f"{kernel}: zeroed_outputs: {one} is no place of an output; there are {len(names)}")
            zeroed[operator.index(one)] = True
        else:
            raise TypeError(f"{kernel}: zeroed_outputs: {one!r} is neither a place nor a name")
    return tuple(zeroed)


def aliases_of(kernel: str, given: Any, operands: Sequence[ArrayArgument], outputs: Sequence[ArrayArgument]) -> Dict[int, int]:
    """Output of each operand that shares a buffer with one. given: places among the array arguments, and of outputs. TypeError;
    ValueError."""
    aliases = {} if given is None else given
    if not isinstance(aliases, Mapping):
        raise TypeError(f"{kernel}: input_output_aliases: {given!r} is no dictionary of array arguments and outputs")
    for operand, output in aliases.items():
        if operand not in range(len(operands)):
            raise ValueError(f"{kernel}: input_output_aliases: there is no array argument {operand}")
        if output not in range(len(outputs)):
            raise ValueError(f"{kernel}: input_output_aliases: there is no output {output}")
        one, other = operands[operand], outputs[output]
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            raise ValueError(f"{kernel}: input_output_aliases: array argument {operand} is {one.dtype.name}{list(one.shape)}, "
                             f"output {output} is {other.dtype.name}{list(other.shape)}")
    if len(set(aliases.values())) < len(aliases):
        raise ValueError(f"{kernel}: input_output_aliases: an output is aliased twice: {dict(aliases)}")
    return {int(operand): int(output) for operand, output in aliases.items()}


def check_contents(kernel: str, tuner: Any, names: Sequence[str], zeroed: "Sequence[Sequence[bool]]", aliased: "Collection[int]") -> None:
    """ValueError for an output whose contents before a launch are not what the kernel needs. tuner: the Autotuner, or None. names: of the
    outputs' parameters. zeroed: for each way to run the kernel. aliased: places."""
    needed = (*tuner.reset_to_zero, *tuner.restore_value) if tuner is not None else ()
    for place, name in enumerate(names):
        if place in aliased and any(way[place] for way in zeroed):
            raise ValueError(f"{kernel}: output {place} ({name}) is zeroed and shares its buffer with an input, which would be lost")
        if name in needed and place not in aliased and not all(way[place] for way in zeroed):
            raise ValueError(f"{kernel}: its autotuner says that the kernel reads its output {name}, whose content is undefined: give "
                             f"zeroed_outputs=({name!r},), or an input with input_output_aliases")


Zeroed = Union[Sequence[Union[int, str]], Callable[[Dict[str, Any]], Any]]
