"""A user who attacks a daemon over its socket, with all that tests/security tries one by one, over and over."""

import contextlib
import ctypes
import multiprocessing
import os
import resource
import signal
import socket
import threading
import time

import file_probes
import http2
import kiln
from kiln._connection import request_frame
from kiln.sockets import PREAMBLE
from kiln.v1 import kernel_service_pb2 as pb

MIB = 1 << 20
PR_SET_PDEATHSIG = 1
DESCRIPTORS = 4096
HELD_S = 0.5  # what is connected stays so for that long
# The daemon may read the first file, and this user may not. The second one is not there; its name is as long.
SECRET, ABSENT, SECRET_WORDS = "/etc/kiln/secret", "/etc/kiln/absent", "words that stand in this file alone"
BACKLOG = 64  # requests that one connection has under way
BACKLOG_S = 20


class HostileUser:
    """Attacks the machine's daemon for as long as a `with` block lasts. fork: makes a child that is that user, and returns its pid.
    probes: names of file_probes.PROBES for which the daemon has a compiler."""

    def __init__(self, fork, probes):
        self._fork, self._probes = fork, probes

    def __enter__(self):
        self._here, there = multiprocessing.Pipe()
        self._child = self._fork(lambda: self._attack(there))
        there.close()
        return self

    def __exit__(self, *exception):
        self._here.send("enough")
        # How often each attack was made to its end, by its name: not those that met a closed door. And what they learned.
        self.counts, self.learned = self._here.recv()
        os.waitpid(self._child, 0)

    def _attack(self, there):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        attacks = Attacks(self._probes)
        counts = dict.fromkeys(Attacks.NAMES, 0)

        def repeat(name):
            while True:
                with contextlib.suppress(OSError, kiln.KilnError):
                    getattr(attacks, name)()
                    counts[name] += 1
                time.sleep(HELD_S)

        for name in Attacks.NAMES:
            threading.Thread(target=repeat, args=(name,), daemon=True).start()
        there.recv()
        there.send((counts, attacks.learned))
        os._exit(0)


class Attacks:
    NAMES = ("unread_pings", "unread_settings", "unread_own_entries", "unread_light_answers", "requests_without_an_end", "unread_streams",
             "many_connections", "unfinished_prefaces", "garbage", "hostile_sources", "compiles_without_need", "tunings_of_others",
             "answers_that_lie", "probing_of_files", "ids_in_flight_twice", "names_that_turn_text_around")

    def __init__(self, probes):
        self._probes = probes
        self.learned = []
        self._path = "/run/kiln/kilnd.sock"
        self._client = kiln.Client(socket=self._path, answer_timeout=120)
        self._number = 0

    @contextlib.contextmanager
    def _connected(self, count, said=b""):
        with contextlib.ExitStack() as stack:
            connections = []
            for _ in range(count):
                connection = stack.enter_context(socket.socket(socket.AF_UNIX))
                connection.connect(self._path)
                connection.settimeout(HELD_S)
                with contextlib.suppress(OSError):
                    connection.sendall(said)
                connections.append(connection)
            yield connections
            time.sleep(HELD_S)

    def unread_pings(self):
        with self._connected(10, http2.GREETING + http2.PINGS * (MIB // 2 // len(http2.PINGS))):
            pass

    def unread_settings(self):
        with self._connected(10, http2.GREETING + http2.frame(http2.SETTINGS, 0, 0) * (MIB // 2 // 9)):
            pass

    def _own_request(self):
        self._client.put_own({key: {"x": bytes(15 * MIB)} for key in (b"0",)})
        return pb.GetOwnRequest(keys=[b"0"])

    def unread_own_entries(self):
        request = self._own_request().SerializeToString()
        calls = b"".join(http2.call(2 * index + 1, "/kiln.v1.KernelService/GetOwn", request) for index in range(60))
        with self._connected(3, http2.GREETING + calls):
            pass

    def unread_light_answers(self):
        request = self._own_request()
        with self._connected(3, PREAMBLE + b"".join(request_frame(index + 1, "GetOwn", request, None) for index in range(60))):
            pass

    def requests_without_an_end(self):
        with self._connected(1, http2.GREETING) as connections:
            http2.send_without_end(connections[0], "/kiln.v1.KernelService/Compile", 12, 16 * MIB)

    def unread_streams(self):
        messages = [pb.CompileStreamRequest(id=number, request={"source": {"text": b"x"}}).SerializeToString() for number in range(20)]
        with self._connected(5, http2.GREETING) as connections:
            for connection in connections:
                for stream in range(1, 200, 2):
                    connection.sendall(http2.open_call(stream, "/kiln.v1.KernelService/CompileStream", messages))

    def many_connections(self):
        with self._connected(500, http2.GREETING), self._connected(500, PREAMBLE):
            pass

    def unfinished_prefaces(self):
        with self._connected(200, http2.PREFACE[:5]), self._connected(200):
            pass

    def garbage(self):
        for begin in (b"", PREAMBLE, http2.GREETING):
            with self._connected(20, begin + os.urandom(10_000)):
                pass

    def hostile_sources(self):
        texts = ["nonsense", "module {" * 50_000, "(" * MIB, "\0" * 100, "module { tt.func public @k() { tt.retur"]
        requests = [kiln.CompileRequest(f"{text}\n// {self._next()}", target) for text in texts for target in ("cuda:90", "hip:gfx942")]
        list(self._client.compile_many(requests))

    def compiles_without_need(self):
        """Fills the queue: each is large, and like no other."""
        source = "module { tt.func public @k(%x: !tt.ptr<f32>) { tt.return } }"
        requests = (kiln.CompileRequest(f"{source}\n// {self._next()} {'x' * (MIB * 9 // 10)}", "cuda:90") for _ in range(BACKLOG))
        list(self._client.compile_many(requests, timeout=BACKLOG_S))

    def probing_of_files(self):
        for name in self._probes:
            number = self._next()
            secret, absent = (file_probes.probe(self._client, name, file, number) for file in (SECRET, ABSENT))
            if secret != absent or SECRET_WORDS.encode() in secret:
                self.learned.append((name, secret, absent))

    def ids_in_flight_twice(self):
        compiles = [pb.CompileRequest(source={"text": f"module {{}} // {self._next()}".encode()}) for _ in range(2)]
        messages = [pb.CompileStreamRequest(id=7, request=one).SerializeToString() for one in compiles]
        said = (http2.GREETING + http2.open_call(1, "/kiln.v1.KernelService/CompileStream", messages),
                PREAMBLE + b"".join(request_frame(7, "Compile", one, None) for one in compiles))
        for one in said:
            with self._connected(1, one) as connections:
                connections[0].recv(1)

    def names_that_turn_text_around(self):
        turned = f"k\u202e{self._next()}\x1b[2J"
        source = f'module {{ tt.func public @"{turned}"(%x: !tt.ptr<f32>) {{ tt.return }} }}'
        list(self._client.compile_many([kiln.CompileRequest(source, "cuda:90", name=turned, job=turned)]))

    def tunings_of_others(self):
        keys = [os.urandom(32) for _ in range(100)]
        self._client.put_own({key: {"times": b"[1e-9, 1e-9, 1e-9]"} for key in keys}, tunings=True)
        self._client.get_own(keys, tunings=True)

    def answers_that_lie(self):
        """About hits that there were not."""
        hits = [pb.ToldHits(job=f"job {self._next()}", place=place, count=2**63, saved_micros=2**63) for place in (1, 2)]
        with self._connected(1, PREAMBLE + request_frame(1, "NoteUses", pb.NoteUsesRequest(hits=hits), None)):
            pass

    def _next(self):
        self._number += 1
        return self._number
