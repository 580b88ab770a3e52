"""As much of HTTP/2 as a client needs that means no good: frames, and calls whose answers nobody reads."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING = 0, 1, 4, 6
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


# What a client says first.
GREETING = PREFACE + frame(SETTINGS, 0, 0)
PINGS = frame(PING, 0, 0, b"12345678")


def call(stream, method, message):
    """A whole call of gRPC on that stream: a method "/package.Service/Method", and its request."""
    fields = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "kilnd", "te": "trailers", "content-type": "application/grpc"}
    # Literals that are not indexed, of less than 127 bytes.
    headers = b"".join(b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in fields.items())
    body = b"\0" + struct.pack(">I", len(message)) + message
    return frame(HEADERS, END_HEADERS, stream, headers) + frame(DATA, END_STREAM, stream, body)
