"""As much of HTTP/2 as a client needs that means no good: frames, calls whose answers nobody reads, and calls without an end."""

import contextlib
import select
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4
FRAME_BYTES_MAX = 16_384
ENHANCE_YOUR_CALM = 11


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


# What a client says first.
GREETING = PREFACE + frame(SETTINGS, 0, 0)
PINGS = frame(PING, 0, 0, b"12345678")


def _headers(stream, method):
    fields = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "kilnd", "te": "trailers", "content-type": "application/grpc"}
    # Literals that are not indexed, of less than 127 bytes.
    block = b"".join(b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in fields.items())
    return frame(HEADERS, END_HEADERS, stream, block)


def _message_start(size):
    return b"\0" + struct.pack(">I", size)


def call(stream, method, message):
    """A whole call of gRPC on that stream: a method "/package.Service/Method", and its request."""
    return _headers(stream, method) + frame(DATA, END_STREAM, stream, _message_start(len(message)) + message)


def open_call(stream, method, messages):
    """A call that does not end, with these requests, which must be small. What a client sends first on a connection is 64 KB at most."""
    return _headers(stream, method) + b"".join(frame(DATA, 0, stream, _message_start(len(message)) + message) for message in messages)


def send_without_end(connection, method, count, size):
    """Sends `count` calls with messages of `size` bytes but for the last byte of each, as the windows allow. Ends early where the daemon ends a
    call or lets nothing move for a second. Returns the code with which the daemon ended a call."""
    left = {stream: size - 1 for stream in range(1, 2 * count, 2)}
    windows, initial = dict.fromkeys([0, *left], 65_535), 65_535
    received = b""
    connection.settimeout(1)

    def send(stream, data):
        connection.sendall(frame(DATA, 0, stream, data))
        windows[0] -= len(data)
        windows[stream] -= len(data)

    with contextlib.suppress(TimeoutError, ConnectionError):
        for stream in left:
            connection.sendall(_headers(stream, method))
            send(stream, _message_start(size))
        while any(left.values()):
            has_moved = False
            for stream in left:
                length = min(windows[0], windows[stream], left[stream], FRAME_BYTES_MAX)
                if length > 0:
                    send(stream, bytes(length))
                    left[stream] -= length
                    has_moved = True
            if select.select([connection], [], [], 0 if has_moved else 1)[0]:
                received += connection.recv(1 << 16)
            elif not has_moved:
                return
            while len(received) >= 9 and len(received) >= 9 + (length := int.from_bytes(received[:3], "big")):
                kind, flags, stream, payload = received[3], received[4], int.from_bytes(received[5:9], "big"), received[9:9 + length]
                received = received[9 + length:]
                if kind == RST_STREAM:
                    return int.from_bytes(payload, "big")
                if kind == GOAWAY:
                    return
                if kind == WINDOW_UPDATE:
                    windows[stream] += int.from_bytes(payload, "big")
                elif kind == SETTINGS and not flags:
                    for name, value in struct.iter_unpack(">HI", payload):
                        if name == INITIAL_WINDOW_SIZE:
                            windows.update({one: windows[one] + value - initial for one in left})
                            initial = value
                    connection.sendall(frame(SETTINGS, 1, 0))
                elif kind == PING and not flags:
                    connection.sendall(frame(PING, 1, 0, payload))
