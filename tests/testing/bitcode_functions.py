"""Where a module of LLVM's bitcode says which of its functions have a body: what kiln_triton_worker/libdevice_functions.py has of libdevice.

    python3 tests/testing/bitcode_functions.py libdevice.10.bc

prints the table. Reads modules of LLVM 3.8, as NVIDIA's libdevice is one. The format: https://llvm.org/docs/BitCodeFormat.html
"""

import pathlib
import sys
import textwrap

CHAR6 = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"
END_BLOCK, ENTER_SUBBLOCK, DEFINE_ABBREV, UNABBREV_RECORD = range(4)
BLOCKINFO, MODULE_BLOCK, VALUE_SYMTAB = 0, 8, 14
SETBID, GLOBALVAR, FUNCTION, ENTRY, FNENTRY = 1, 7, 8, 1, 3
FIXED, VBR, ARRAY, CHAR6_FIELD = 1, 2, 3, 4


class Reader:
    """A stream of bits; at: the next one."""

    def __init__(self, content):
        self._content, self.at = content, 0
        self._abbreviations_of = {}  # by block

    def fixed(self, width):
        begin, shift = divmod(self.at, 8)
        self.at += width
        return int.from_bytes(self._content[begin:begin + 9], "little") >> shift & ((1 << width) - 1)

    def vbr(self, width):
        value, shift, more = 0, 0, 1
        while more:
            more, chunk = divmod(self.fixed(width), 1 << width - 1)
            value |= chunk << shift
            shift += width - 1
        return value

    def align(self):
        self.at = -(-self.at // 32) * 32

    def enter(self):
        """(number of a block, width of its abbreviations, the bit behind it)."""
        block, width = self.vbr(8), self.vbr(4)
        self.align()
        words = self.fixed(32)
        return block, width, self.at + 32 * words

    def records(self, block, width):
        """(block, fields, the bit of each) of the records of a block and of the names in it. The first field is the record's code."""
        abbreviations, current = list(self._abbreviations_of.get(block, ())), None
        while (kind := self.fixed(width)) != END_BLOCK:
            if kind == ENTER_SUBBLOCK:
                inner, inner_width, end = self.enter()
                if inner == BLOCKINFO:
                    list(self.records(inner, inner_width))
                elif inner == VALUE_SYMTAB:
                    yield from self.records(inner, inner_width)
                self.at = end
            elif kind == DEFINE_ABBREV:
                (abbreviations if current is None else self._abbreviations_of.setdefault(current, [])).append(self._abbreviation())
            else:
                fields, bits = self._record(None if kind == UNABBREV_RECORD else abbreviations[kind - 4])
                if block == BLOCKINFO and fields[0] == SETBID:
                    current = fields[1]
                yield block, fields, bits

    def _abbreviation(self):
        operands = []
        for _ in range(self.vbr(5)):
            if self.fixed(1):
                operands.append((None, self.vbr(8)))
            else:
                encoding = self.fixed(3)
                operands.append((encoding, self.vbr(5) if encoding in (FIXED, VBR) else 0))
        return operands

    def _record(self, abbreviation):
        if abbreviation is None:
            code, count = self.vbr(6), self.vbr(6)
            operands, fields, bits = [(VBR, 6)] * count, [code], [None]
        else:
            operands, fields, bits = list(abbreviation), [], []
            if len(operands) > 1 and operands[-2][0] == ARRAY:
                (_, element) = operands[-2:]
                operands = operands[:-2]
                for operand in operands:
                    self._field(operand, fields, bits)
                operands = [element] * self.vbr(6)
        for operand in operands:
            self._field(operand, fields, bits)
        return fields, bits

    def _field(self, operand, fields, bits):
        bits.append(self.at)
        encoding, value = operand
        if encoding == CHAR6_FIELD:
            value = CHAR6[self.fixed(6)]
        elif encoding is not None:
            value = 0 if value == 0 else self.fixed(value) if encoding == FIXED else self.vbr(value)
        fields.append(value)


def defined_functions(content):
    """{name: the bit that says that the function is a declaration} of those with a body, in the order of the module."""
    reader = Reader(content)
    reader.at = 32  # behind the magic number
    block = None
    while block != MODULE_BLOCK:
        if block is not None:
            reader.at = end
        assert reader.fixed(2) == ENTER_SUBBLOCK
        block, width, end = reader.enter()
    values, names = [], {}
    for block, fields, bits in reader.records(MODULE_BLOCK, width):
        if block == VALUE_SYMTAB and fields[0] in (ENTRY, FNENTRY):
            names[fields[1]] = bytes(fields[2 if fields[0] == ENTRY else 3:]).decode()
        elif block == MODULE_BLOCK and fields[0] in (GLOBALVAR, FUNCTION):
            values.append(bits[3] if fields[0] == FUNCTION and not fields[3] else None)
    return {names[number]: bit for number, bit in enumerate(values) if bit is not None}


if __name__ == "__main__":
    first, *others = defined_functions(pathlib.Path(sys.argv[1]).read_bytes()).items()
    print("\n".join(textwrap.wrap(" ".join(f"{name.removeprefix('__')}:{bit}" for name, bit in others), 139)))
