"""What ELF files say of themselves."""

import struct


def program_loader(program):
    """What an ELF program names as its interpreter, such as /lib64/ld-linux-x86-64.so.2; "" where it names none."""
    with open(program, "rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            return ""
        table, size, count = *struct.unpack_from("<Q", header, 32), *struct.unpack_from("<HH", header, 54)
        for index in range(count):
            file.seek(table + index * size)
            entry = file.read(size)
            kind, = struct.unpack_from("<I", entry)
            if kind == 3:  # PT_INTERP
                offset, length = struct.unpack_from("<Q16xQ", entry, 8)
                file.seek(offset)
                return file.read(length).rstrip(b"\0").decode()
    return ""


def is_whole_elf(image):
    """Whether the headers of a 64-bit ELF file, and what they point to, end within its bytes."""
    if len(image) < 64 or image[:5] != b"\x7fELF\x02":
        return False
    segments, sections = struct.unpack_from("<QQ", image, 32)
    segment_bytes, segment_count, section_bytes, section_count = struct.unpack_from("<4H", image, 54)
    if max(segments + segment_bytes * segment_count, sections + section_bytes * section_count) > len(image):
        return False
    ends = [0]
    for at in range(sections, sections + section_bytes * section_count, section_bytes or 1):
        kind, offset, size = struct.unpack_from("<4xI16xQQ", image, at)
        if kind not in (0, 8):  # SHT_NULL, SHT_NOBITS
            ends.append(offset + size)
    for at in range(segments, segments + segment_bytes * segment_count, segment_bytes or 1):
        offset, size = struct.unpack_from("<8xQ16xQ", image, at)
        ends.append(offset + size)
    return max(ends) <= len(image)
