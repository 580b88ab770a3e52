"""As much of ELF as comparing GPU binaries takes: header, sections, symbols, notes. 64-bit, little-endian."""

import dataclasses
import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")

SHT_SYMTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 2, 7, 8, 11
STT_OBJECT, STT_FUNC = 1, 2


@dataclasses.dataclass(frozen=True)
class Section:
    name: str
    type: int
    flags: int
    alignment: int
    size: int  # in memory; without a content in the file for SHT_NOBITS
    content: bytes
    strings: int  # index of the section with this one's strings


@dataclasses.dataclass(frozen=True)
class Symbol:
    name: str
    type: int
    section: int
    value: int
    size: int


@dataclasses.dataclass(frozen=True)
class Note:
    owner: str
    type: int
    content: bytes


class Elf:
    def __init__(self, data):
        (ident, self.type, self.machine, _, self.entry, _, sections_at, self.flags, _, _, _, section_size,
         section_count, names_index) = _HEADER.unpack_from(data)
        if ident[:4] != b"\x7fELF" or ident[4:6] != b"\x02\x01":
            raise ValueError(f"not a 64-bit little-endian ELF file: {ident!r}")
        if section_size != _SECTION.size:
            raise ValueError(f"section headers of {section_size} bytes")
        self.os_abi, self.abi_version = ident[7], ident[8]
        headers = [_SECTION.unpack_from(data, sections_at + index * section_size) for index in range(section_count)]
        names_at = headers[names_index][4]
        self.sections = []
        for name, kind, flags, _, offset, size, link, _, alignment, _ in headers:
            content = b"" if kind == SHT_NOBITS else data[offset:offset + size]
            self.sections.append(Section(_string(data, names_at + name), kind, flags, alignment, size, content, link))

    def symbols(self):
        """The symbols of all symbol tables, by name."""
        found = {}
        for section in self.sections:
            if section.type not in (SHT_SYMTAB, SHT_DYNSYM):
                continue
            strings = self.sections[section.strings].content
            for name, info, _, where, value, size in _SYMBOL.iter_unpack(section.content):
                text = _string(strings, name)
                found[text] = Symbol(text, info & 15, where, value, size)
        return found

    def notes(self):
        return [note for section in self.sections if section.type == SHT_NOTE for note in _notes(section.content)]


def _notes(content):
    offset = 0
    while offset + 12 <= len(content):
        owner_size, size, kind = struct.unpack_from("<III", content, offset)
        owner_at = offset + 12
        content_at = owner_at + _padded(owner_size)
        yield Note(_string(content, owner_at), kind, content[content_at:content_at + size])
        offset = content_at + _padded(size)


def _padded(size):
    return (size + 3) & ~3


def _string(data, offset):
    return data[offset:data.index(b"\0", offset)].decode()
