"""Sizes that are known only at a launch: polynomials over symbols."""

import functools
import re
from typing import Dict, Mapping, Tuple, Union

from kiln.errors import InvalidArgumentError

_Terms = Dict[Tuple[str, ...], int]  # factors by symbols, which ascend
_PRODUCT = re.compile(r"\s*([+-]?)\s*([^+\-]+)")
Extent = Union[int, str, "Size"]


class Size:
    """A dimension or stride: `4 * batch + 1`. Immutable. Segment.symbol gives the first ones, arithmetic with ints and each other the rest."""

    def __init__(self, terms: _Terms) -> None:
        self._terms = {symbols: factor for symbols, factor in terms.items() if factor}

    @classmethod
    def of(cls, extent: Extent) -> "Size":
        """From a number, from the text that str() gives, or from a size. InvalidArgumentError."""
        if isinstance(extent, Size):
            return extent
        if isinstance(extent, int) and not isinstance(extent, bool):
            return cls({(): extent})
        if isinstance(extent, str):
            return _parsed(extent)
        if hasattr(extent, "__index__") and not isinstance(extent, bool):
            return cls({(): extent.__index__()})
        raise InvalidArgumentError(f"a dimension is a number, a text or a Size, and not {extent!r}")

    @property
    def symbols(self) -> "Tuple[str, ...]":
        """The names in it, each once, ascending."""
        return tuple(sorted({name for symbols in self._terms for name in symbols}))

    def evaluate(self, symbols: Mapping[str, int]) -> int:
        """Its number. KeyError for a symbol that is not given."""
        total = 0
        for names, factor in self._terms.items():
            for name in names:
                factor *= symbols[name]
            total += factor
        return total

    def solve(self, name: str, symbols: Mapping[str, int], number: int) -> "Union[int, None]":
        """The value of one symbol with which the size is `number`, the others given. None: it is not a multiple of that symbol and a rest."""
        factor, rest = 0, 0
        for names, times in self._terms.items():
            for other in names:
                times *= 1 if other == name else symbols[other]
            if names.count(name) > 1:
                return None
            if name in names:
                factor += times
            else:
                rest += times
        return (number - rest) // factor if factor and (number - rest) % factor == 0 else None

    def __add__(self, other: "Union[int, Size]") -> "Size":
        terms = dict(self._terms)
        for symbols, factor in Size.of(other)._terms.items():
            terms[symbols] = terms.get(symbols, 0) + factor
        return Size(terms)

    def __mul__(self, other: "Union[int, Size]") -> "Size":
        terms: _Terms = {}
        for symbols, factor in self._terms.items():
            for more, times in Size.of(other)._terms.items():
                joined = tuple(sorted(symbols + more))
                terms[joined] = terms.get(joined, 0) + factor * times
        return Size(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> "Size":
        return self * -1

    def __sub__(self, other: "Union[int, Size]") -> "Size":
        return self + -Size.of(other)

    def __rsub__(self, other: int) -> "Size":
        return -self + other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, Size)) and self._terms == Size.of(other)._terms

    def __hash__(self) -> int:
        return hash(frozenset(self._terms.items()))

    def __str__(self) -> str:
        products = ["*".join([str(factor), *symbols]) for symbols, factor in sorted(self._terms.items(), reverse=True)]
        return re.sub(r"\b1\*", "", " + ".join(products)).replace("+ -", "- ") or "0"

    def __repr__(self) -> str:
        return f"<kiln.graph.Size {self}>"


@functools.lru_cache(maxsize=1024)  # sizes do not change
def _parsed(text: str) -> Size:
    total, end = Size({}), 0
    for found in _PRODUCT.finditer(text):
        if found.start() != end:
            break
        end = found.end()
        product = Size({(): -1 if found[1] == "-" else 1})
        for factor in (word.strip() for word in found[2].split("*")):
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+", factor):
                raise InvalidArgumentError(f"{text!r} is no sum of products of integers and symbols")
            product = product * Size({(): int(factor)} if factor.isdigit() else {(factor,): 1})
        total = total + product
    if end != len(text) or not text:
        raise InvalidArgumentError(f"{text!r} is no sum of products of integers and symbols")
    return total
