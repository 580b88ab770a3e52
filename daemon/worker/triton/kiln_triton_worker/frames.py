"""Frames on a job socket: magic, version, type, header bytes, id, payload bytes. See daemon/worker/protocol.md."""

import json
import struct

PROTOCOL = 1

FRAME = struct.Struct("<4sHHIIQ")
FRAME_MAGIC = b"KILN"
FRAME_COMPILE = 1
FRAME_RESULT = 2
FRAME_READY = 3
HEADER_BYTES_MAX = 2 << 20
PAYLOAD_BYTES_MAX = 256 << 20


def read_exactly(connection, size):
    """`size` bytes, or None when the other side is gone."""
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        received = connection.recv_into(view)
        if received == 0:
            return None
        view = view[received:]
    return bytes(buffer)


def read_frame(job):
    start = read_exactly(job, FRAME.size)
    if start is None:
        return None
    magic, version, kind, header_bytes, identifier, payload_bytes = FRAME.unpack(start)
    if magic != FRAME_MAGIC or version != PROTOCOL or kind != FRAME_COMPILE:
        raise ValueError(f"not a compile frame: {start!r}")
    if header_bytes > HEADER_BYTES_MAX or payload_bytes > PAYLOAD_BYTES_MAX:
        raise ValueError(f"a frame of {header_bytes} + {payload_bytes} bytes is over the limit")
    header = read_exactly(job, header_bytes)
    payload = read_exactly(job, payload_bytes)
    return None if header is None or payload is None else (identifier, json.loads(header), payload)


def to_json(header):
    # As UTF-8: escaped, a letter beyond ASCII would take up to six times the bytes that the daemon counts.
    return json.dumps(header, ensure_ascii=False).encode("utf-8", "replace")


def write_frame(job, kind, identifier, header, blobs=()):
    text = to_json(header)
    start = FRAME.pack(FRAME_MAGIC, PROTOCOL, kind, len(text), identifier, sum(map(len, blobs)))
    job.sendall(b"".join((start, text, *blobs)))
