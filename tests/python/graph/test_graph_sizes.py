"""Sizes of kiln.graph, and what it reads of other libraries' arrays."""

from types import SimpleNamespace

import numpy as np
import pytest

import kiln
from kiln.graph import Size, TensorAddress
from kiln.graph._arrays import contents_of, facts_of, strides_fit

BATCH, ROWS = Size.of("batch"), Size.of("rows")


@pytest.mark.parametrize("size, text", [
    (BATCH * 4 + 1, "4*batch + 1"),
    (BATCH * ROWS * 2 - ROWS, "-rows + 2*batch*rows"),
    ((BATCH + 1) * (BATCH - 1), "batch*batch - 1"),
    (3 - BATCH, "-batch + 3"),
    (BATCH - BATCH, "0"),
    (11 * BATCH + 1 * ROWS, "rows + 11*batch"),
])
def test_arithmetic_has_one_text_for_equal_sizes(size, text):
    assert str(size) == text and Size.of(text) == size and hash(Size.of(text)) == hash(size)
    symbols = {"batch": 5, "rows": 7}
    assert size.evaluate(symbols) == eval(text, {}, symbols)


def test_a_symbol_follows_from_a_dimension():
    assert (4 * BATCH + 1).solve("batch", {}, 9) == 2
    assert (BATCH * ROWS + ROWS).solve("batch", {"rows": 3}, 12) == 3
    for size, number in ((4 * BATCH + 1, 10), (BATCH * BATCH, 9), (ROWS * BATCH, 5)):
        assert size.solve("batch", {"rows": 0}, number) is None


def interface(**facts):
    return SimpleNamespace(__cuda_array_interface__={"shape": (4, 3), "typestr": "<f2", "data": (4096, False), **facts})


def test_arrays_tell_type_shape_and_strides():
    array = np.zeros((4, 6), np.int16)[:, ::2]
    assert facts_of(array) == facts_of(TensorAddress(0, (4, 3), "i16", (6, 2)))
    assert (facts_of(interface()).type, facts_of(interface()).shape) == ("f16", (4, 3))
    assert facts_of(interface(strides=(2, 8))).strides == (1, 4)
    assert facts_of(interface(typestr="|b1")).type == "bool"
    tensor = SimpleNamespace(data_ptr=lambda: 4096, dtype="torch.bfloat16", shape=(4, 3), stride=lambda: (3, 1))
    assert (facts_of(tensor).type, facts_of(tensor).strides) == ("bf16", (3, 1))
    assert facts_of(4096).shape is None


def test_strides_of_one_element_and_of_none_do_not_matter():
    assert strides_fit((4, 3), None, (3, 1)) and strides_fit((1, 3), (99, 1), (3, 1)) and strides_fit((0, 3), (7, 7), (3, 1))
    assert not strides_fit((4, 3), None, (1, 4)) and not strides_fit((4, 3), (4, 1), (3, 1))


def test_contents_strides_fit_bytes_of_any_buffer():
    assert contents_of(np.arange(6, dtype=np.int8).reshape(2, 3).T, "c") == ("i8", (3, 2), bytes([0, 3, 1, 4, 2, 5]))
    assert contents_of(memoryview(b"abc"), "c") == ("u8", (3,), b"abc")
    with pytest.raises(kiln.InvalidArgumentError, match="c: .*no buffer protocol"):
        contents_of([1, 2], "c")
