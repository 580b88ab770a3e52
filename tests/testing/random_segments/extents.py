"""Dimensions of random segments: polynomials over symbols, as client/graph/program/size.h has them."""

from collections import Counter


class Extent:
    """A sum of products of integers and symbols, with the number that it has in this example. Equal polynomials are equal."""

    def __init__(self, terms, value):
        self.terms = {symbols: factor for symbols, factor in terms.items() if factor}
        self.value = value

    @classmethod
    def fixed(cls, number):
        return cls({(): number}, number)

    @classmethod
    def symbol(cls, name, number):
        return cls({(name,): 1}, number)

    @property
    def is_fixed(self):
        return all(not symbols for symbols in self.terms)

    def __add__(self, other):
        terms = Counter(self.terms)
        for symbols, factor in _extent(other).terms.items():
            terms[symbols] += factor
        return Extent(terms, self.value + _extent(other).value)

    def __mul__(self, other):
        terms = Counter()
        for symbols, factor in self.terms.items():
            for more, times in _extent(other).terms.items():
                terms[tuple(sorted(symbols + more))] += factor * times
        return Extent(terms, self.value * _extent(other).value)

    def __eq__(self, other):
        return self.terms == _extent(other).terms

    def __hash__(self):
        return hash(frozenset(self.terms.items()))

    def __str__(self):
        products = ["*".join([str(factor), *symbols]) for symbols, factor in sorted(self.terms.items(), reverse=True)]
        return " + ".join(products).replace("+ -", "- ") or "0"

    __repr__ = __str__

    def json(self):
        return self.value if self.is_fixed else str(self)


def _extent(number):
    return number if isinstance(number, Extent) else Extent.fixed(number)


ONE = Extent.fixed(1)


def product(extents):
    whole = Extent.fixed(1)
    for extent in extents:
        whole = whole * extent
    return whole


def values(extents):
    return tuple(extent.value for extent in extents)


def row_major(extents):
    return tuple(product(extents[axis + 1:]) for axis in range(len(extents)))
