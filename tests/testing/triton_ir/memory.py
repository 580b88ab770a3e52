"""Global memory: buffers at made-up addresses, so that every access beyond one is seen."""

import numpy

_SPAN = 1 << 40  # between two buffers
_NUMBER_TYPES = {
    "i1": numpy.bool_,
    "i8": numpy.int8,
    "i16": numpy.int16,
    "i32": numpy.int32,
    "i64": numpy.int64,
    "f16": numpy.float16,
    "bf16": numpy.float32,  # its values; in memory, the upper half of each
    "f32": numpy.float32,
    "f64": numpy.float64,
}
_SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}


class OutOfBounds(Exception):
    pass


def number_type(element):
    return _NUMBER_TYPES[element]


def size_of(element):
    return _SIZES[element]


def round_to_bf16(values):
    """To the nearest, ties to even."""
    values = numpy.asarray(values, numpy.float32)
    bits = values.view(numpy.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(numpy.uint32).view(numpy.float32)
    return numpy.where(numpy.isnan(values), values, rounded)


def to_bits(element, values):
    """As unsigned integers of the type's size."""
    if element == "bf16":
        return (numpy.asarray(values, numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)
    values = numpy.asarray(values, number_type(element))
    return values.view(f"u{values.dtype.itemsize}")


def from_bits(element, bits):
    if element == "bf16":
        return (numpy.asarray(bits, numpy.uint32) << 16).view(numpy.float32)
    return numpy.asarray(bits).view(number_type(element))


class Memory:
    """The buffers are the caller's arrays: stores change them."""

    def __init__(self, buffers):
        self._bytes = [buffer.reshape(-1).view(numpy.uint8) for buffer in buffers]

    def address(self, number):
        return (number + 1) * _SPAN

    def _places(self, addresses, element, what):
        """The buffer of all addresses, as integers of the element's size, and their indices. Usual accesses have one buffer."""
        number = (int(addresses.flat[0]) + _SPAN // 2) // _SPAN - 1
        if not 0 <= number < len(self._bytes):
            raise OutOfBounds(f"{what}: addresses far outside one buffer")
        offsets = addresses - self.address(number)
        size = size_of(element)
        # A negative offset is a large unsigned one.
        last = int(numpy.maximum.reduce(offsets.view(numpy.uint64), axis=None))
        if last + size > len(self._bytes[number]) or numpy.bitwise_or.reduce(offsets, axis=None) % size != 0:
            raise OutOfBounds(f"{what}: bytes {offsets.min()} to {offsets.max()} of {len(self._bytes[number])} in buffer {number}")
        return self._bytes[number].view(f"u{size}"), offsets // size

    def load(self, addresses, element, mask=None, other=0):
        """Without a mask, loads all addresses."""
        if mask is None or mask.all():
            words, places = self._places(addresses, element, "load")
            return from_bits(element, words[places])
        result = numpy.array(numpy.broadcast_to(other, addresses.shape), number_type(element))
        if mask.any():
            words, places = self._places(addresses[mask], element, "load")
            result[mask] = from_bits(element, words[places])
        return result

    def store(self, addresses, element, values, mask=None):
        chosen = ... if mask is None else mask
        if mask is None or mask.any():
            words, places = self._places(addresses[chosen], element, "store")
            words[places] = to_bits(element, values[chosen])

    def update(self, addresses, element, values, mask, function):
        """One after the other. The result has what was there before."""
        result = numpy.zeros(addresses.shape, number_type(element))
        chosen = ... if mask is None else mask
        if mask is None or mask.any():
            words, places = self._places(addresses[chosen], element, "atomic operation")
            before = []
            for place, value in zip(places.flat, values[chosen].flat):
                old = from_bits(element, words[place : place + 1])[0]
                before.append(old)
                words[place] = to_bits(element, numpy.array([function(old, value)]))[0]
            result[chosen] = before
        return result
