"""What a user of the socket can take away from the others: memory, places, threads. Each test is the attack; it sends a few megabytes."""

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import resource
import socket
import struct
import subprocess
import tempfile
import time

import pytest

import http2
import processes
from daemon import STOP_SECONDS_MAX, Daemon
from places import CUDA, DESCRIPTIONS
from kiln._connection import Connection, request_frame
from kiln.sockets import PREAMBLE, Endpoint
from kiln.v1 import kernel_service_pb2 as pb

pytestmark = pytest.mark.one_case

MIB = 1 << 20
# As docs/reference.md has it.
MEMORY_MAX = 600_000_000
GROUP_BYTES = 1024 * MIB
QUEUE_BYTES_MAX = 256 * MIB
CONNECTIONS_MAX = 10_240
CONNECTIONS_OF_ONE_USER_MAX = 8_192
DESCRIPTORS_KEPT = 8_192  # that connections leave
FIRST_UID = 20_000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it connects as other users")


@pytest.fixture
def folder():
    """One that every user can look into."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


@pytest.fixture
def victim(programs, folder, record_property):
    """A daemon without toolchains that lets everybody in."""
    (folder / "toolchains").mkdir()
    with Daemon(dataclasses.replace(programs, toolchains=folder / "toolchains"), folder, environment={"KILN_SOCKETS_MODE": "0666"}) as daemon:
        yield daemon
        record_property("peak_bytes", memory_of(daemon, "VmHWM"))  # for tests/benchmarks/run


def bounded(daemon, controller, limit, value):
    return processes.bounded(daemon.pid, controller, limit, value)


def in_a_small_group(daemon):
    return bounded(daemon, "memory", ("memory.limit_in_bytes", "memory.max"), GROUP_BYTES)


def memory_of(daemon, field="VmRSS"):
    lines = pathlib.Path(f"/proc/{daemon.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def await_memory(daemon, at_most):
    """The daemon gives it back within seconds."""
    deadline = time.monotonic() + 60
    while memory_of(daemon) > at_most and time.monotonic() < deadline:
        time.sleep(0.1)
    print(f"{memory_of(daemon, 'VmHWM') / MIB:.0f} MiB at most, {memory_of(daemon) / MIB:.0f} afterwards")
    assert memory_of(daemon) <= at_most


def threads_of(daemon):
    return len(os.listdir(f"/proc/{daemon.pid}/task"))


@contextlib.contextmanager
def acting_as(uid):
    """The kernel notes who connects."""
    before = os.geteuid()
    if uid is not None:
        os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(before)


def connect(daemon, said=http2.GREETING, uid=None, name="kilnd.sock"):
    with acting_as(uid):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(daemon.root / "run" / name))
    connection.sendall(said)
    return connection


def is_served(connection):
    """gRPC greets whoever greets it."""
    connection.settimeout(60)
    with contextlib.suppress(ConnectionError):
        return connection.recv(1, socket.MSG_PEEK) != b""  # who goes on reads it from its beginning
    return False


def gets_in(daemon, uid=None, name="kilnd.sock"):
    with contextlib.suppress(ConnectionError):  # a refused connection may be closed before anything is said
        return is_served(connect(daemon, uid=uid, name=name))
    return False


def push(connection, data):
    """As much of it as the daemon takes."""
    connection.settimeout(1)
    with contextlib.suppress(TimeoutError, ConnectionError):
        connection.sendall(data)


def ask(daemon, method, request, uid=None):
    with acting_as(uid):
        connection = Connection(Endpoint(socket=str(daemon.root / "run" / "kilnd.sock"), answer_s=60))
    return connection.call(method, request, time.monotonic() + 60)


@pytest.mark.parametrize("flood", [http2.PINGS, http2.frame(http2.SETTINGS, 0, 0), http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 3, 9))],
                         ids=["pings", "settings", "settings that change"])
def test_frames_whose_answers_nobody_reads(victim, flood):
    """0.5 MB of pings on each of 10 connections took 1 GB."""
    before = memory_of(victim)
    with in_a_small_group(victim):
        connections = [connect(victim) for _ in range(10)]
        for connection in connections:
            push(connection, flood * (MIB // 2 // len(flood)))
        assert victim.kiln("stats").code == 0
        for connection in connections:
            connection.close()
        assert victim.kiln("stats").code == 0
    assert memory_of(victim, "VmHWM") - before < 50 * MIB


@pytest.mark.slow
def test_requests_without_an_end(victim):
    """One user's took 1.3 GB, of which 450 MB stayed when the user was gone."""
    before = memory_of(victim)
    with in_a_small_group(victim):
        connections = [connect(victim) for _ in range(3)]
        for connection in connections:
            http2.send_without_end(connection, "/kiln.v1.KernelService/Compile", 12, 16 * MIB)
        assert memory_of(victim, "VmHWM") < MEMORY_MAX
        for connection in connections:
            connection.close()
        await_memory(victim, before + 100 * MIB)


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("users", [4, 64])
def test_requests_without_an_end_of_several_users(victim, users):
    """Each of them had as much as one alone; 20 had a daemon killed."""
    before = memory_of(victim)
    with in_a_small_group(victim), contextlib.ExitStack() as opened:
        connections = [opened.enter_context(connect(victim, uid=FIRST_UID + index)) for index in range(users)]
        assert all(map(is_served, connections))
        with concurrent.futures.ThreadPoolExecutor(len(connections)) as pool:
            list(pool.map(lambda one: http2.send_without_end(one, "/kiln.v1.KernelService/Compile", 12, 16 * MIB), connections))
        assert before + 100 * MIB < memory_of(victim, "VmHWM") < MEMORY_MAX
        assert victim.kiln("stats").code == 0
        for connection in connections:
            connection.close()
        await_memory(victim, before + 100 * MIB)


@pytest.mark.slow
@needs_root
def test_users_who_share_memory_with_many_are_served(first_daemon, folder):
    """A part of what is shared by 64 holds kernels as they come. A larger request by gRPC is told so and may be repeated. Batches go by the light
    protocol, which takes it."""
    source = "module { tt.func public @k(%x: !tt.ptr<i32>) { tt.return } }"

    def compile_them(name, count, size):
        lines = [json.dumps({"name": "k", "target": "cuda:90", "source": f"{source}\n// {name} {number} {'x' * size}"}) for number in range(count)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
        return daemon.kiln("compile", "--requests", folder / f"{name}.jsonl", "-o", folder)

    def refusal_of_a_large_one():
        with connect(daemon, uid=FIRST_UID + 64) as another:
            assert is_served(another)
            return http2.send_without_end(another, "/kiln.v1.KernelService/Compile", 1, 10 * MIB)

    with first_daemon.beside(folder, KILN_SOCKETS_MODE="0666") as daemon, contextlib.ExitStack() as opened:
        connections = [opened.enter_context(connect(daemon, uid=FIRST_UID + index)) for index in range(64)]
        assert all(map(is_served, connections))
        assert compile_them("small", 64, 100_000).code == 0
        assert refusal_of_a_large_one() == http2.ENHANCE_YOUR_CALM
        assert compile_them("large", 1, 10 * MIB).code == 0
        for connection in connections:
            connection.close()
        assert any(refusal_of_a_large_one() is None for _ in range(20))


@pytest.mark.slow
@needs_root
def test_a_queue_full_of_large_sources(first_daemon, folder, record_property):
    """Of three users, who together send more than the queue takes. There might have been 1 GiB of them."""
    source = "module { tt.func public @k(%x: !tt.ptr<i32>) { tt.return } }"

    def send(index):
        """Of the first one the compiler takes longer than the others take to come."""
        steps = "".join(f"%{step} = math.sin %{step - 1} : f32\n" for step in range(1, 20_000))
        slow = f"module {{ tt.func public @k(%x: !tt.ptr<f32>) {{ %0 = tt.load %x : !tt.ptr<f32>\n{steps}tt.store %x, %19999 : !tt.ptr<f32>\ntt.return }} }}"
        lines = [json.dumps({"name": "k", "target": "cuda:90", "source": f"{source}\n// {index} {number} {'x' * 6 * MIB}"}) for number in range(10)]
        (folder / f"{index}.jsonl").write_text("\n".join(lines if index else [json.dumps({"name": "k", "target": "cuda:90", "source": slow})]))
        (folder / f"{index}").mkdir()
        os.chown(folder / f"{index}", FIRST_UID + index % 3, -1)
        command = daemon.kiln_command("compile", "--requests", folder / f"{index}.jsonl", "-o", folder / f"{index}")
        with open(folder / f"{index}.log", "w") as log:
            return subprocess.Popen(command, env=daemon.environment(), user=FIRST_UID + index % 3, stdout=log, stderr=log)

    def queued_bytes():
        return daemon.kiln("stats", "--json").objects()[0]["queued_bytes"]

    with first_daemon.beside(folder, KILN_SOCKETS_MODE="0666", KILN_WORKERS_SLOTS="1") as daemon:
        (folder / "small.mlir").write_text(source)
        assert daemon.kiln("compile", folder / "small.mlir", "--target", "cuda:90", "-o", folder).code == 0  # what compiles has been started
        before = memory_of(daemon)
        with in_a_small_group(daemon):
            senders = [send(index) for index in range(9)]
            deadline = time.monotonic() + 120
            while queued_bytes() < QUEUE_BYTES_MAX // 2:
                assert time.monotonic() < deadline, "\n".join(path.read_text() for path in folder.glob("*.log"))
            record_property("peak_bytes", memory_of(daemon, "VmHWM"))
            assert memory_of(daemon, "VmHWM") < MEMORY_MAX
            for sender in senders:
                sender.kill()
                sender.wait()
            await_memory(daemon, before + 100 * MIB)


def own_calls(count):
    request = pb.GetOwnRequest(keys=[b"0", b"1"]).SerializeToString()
    return b"".join(http2.call(2 * index + 1, "/kiln.v1.KernelService/GetOwn", request) for index in range(count))


@pytest.mark.slow
@needs_root
def test_answers_that_nobody_reads(victim):
    """60 calls of each of three users, with an answer of 30 MB each, took 4.9 GB. In a control group of 1 GiB the daemon lives, serves others
    and gives the memory back."""
    users = range(FIRST_UID, FIRST_UID + 3)
    for user in users:
        for key in (b"0", b"1"):
            entry = pb.OwnEntry(key=key, files=[pb.OwnFile(name="x", content=os.urandom(15 * MIB))])
            ask(victim, "PutOwn", pb.PutOwnRequest(entries=[entry]), user)
    before = memory_of(victim)
    with in_a_small_group(victim):
        connections = [connect(victim, http2.GREETING + own_calls(60), user) for user in users]
        for _ in range(200):  # behind the calls
            assert ask(victim, "GetOwn", pb.GetOwnRequest(keys=[b"absent"]), FIRST_UID + 9) == pb.GetOwnResponse()
        assert memory_of(victim, "VmHWM") < MEMORY_MAX
        for connection in connections:
            connection.close()
        await_memory(victim, before + 100 * MIB)


def light_own_calls(count):
    request = pb.GetOwnRequest(keys=[b"0", b"1"])
    return PREAMBLE + b"".join(request_frame(index + 1, "GetOwn", request, None) for index in range(count))


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("said", [http2.GREETING + own_calls(60), light_own_calls(60)], ids=["gRPC", "light"])
def test_answers_that_hundreds_of_users_do_not_read(victim, said):
    """What one user may leave unread, times 200, is more than the machine has."""
    users = range(FIRST_UID, FIRST_UID + 200)
    for user in users:
        entries = [pb.OwnEntry(key=key, files=[pb.OwnFile(name="x", content=os.urandom(MIB))]) for key in (b"0", b"1")]
        ask(victim, "PutOwn", pb.PutOwnRequest(entries=entries), user)
    before = memory_of(victim)
    with in_a_small_group(victim):
        connections = [connect(victim, said, user) for user in users]
        for _ in range(200):  # behind the calls
            assert ask(victim, "GetOwn", pb.GetOwnRequest(keys=[b"absent"]), FIRST_UID + 300) == pb.GetOwnResponse()
        assert memory_of(victim, "VmHWM") < MEMORY_MAX
        for connection in connections:
            connection.close()
        await_memory(victim, before + 100 * MIB)


@pytest.mark.slow
def test_streams_whose_answers_nobody_reads(victim):
    """1,000 streams of requests that are refused at once, each of which says why."""
    requests = [pb.CompileStreamRequest(id=number, request={"source": {"text": b"x"}}) for number in range(20)]
    messages = [request.SerializeToString() for request in requests]
    before = memory_of(victim)
    with in_a_small_group(victim):
        connections = [connect(victim) for _ in range(10)]
        for connection in connections:
            for stream in range(1, 200, 2):
                push(connection, http2.open_call(stream, "/kiln.v1.KernelService/CompileStream", messages))
        assert victim.kiln("stats").code == 0
        assert memory_of(victim, "VmHWM") < MEMORY_MAX
        for connection in connections:
            connection.close()
        await_memory(victim, before + 100 * MIB)


@needs_root
def test_many_users_lock_no_operator_out_and_cost_no_thread(victim):
    """256 users did, on both sockets, with a thread for each."""
    threads = threads_of(victim)
    connections = [connect(victim, uid=FIRST_UID + index) for index in range(300)]
    served = sum(map(is_served, connections))
    assert 250 < served < 300
    assert threads_of(victim) < threads + 8
    assert is_served(connect(victim)) and is_served(connect(victim, name="admin.sock"))
    assert victim.kiln("stats").code == 0


@contextlib.contextmanager
def descriptors_of_this_machine(count):
    """What this process, and each that it starts, may have at most."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < count:
        pytest.skip(f"this machine allows {before[1]} descriptors, and {count} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.slow
@needs_root
def test_ten_thousand_connections_leave_room_for_compiles_and_operators(programs, folder):
    """With 20,000 descriptors. There were 5,000 when each connection took two."""

    def compiled(daemon, name):
        source = folder / f"{name}.cu"
        source.write_text(f'extern "C" __global__ void {name}(int* x) {{ *x = 1; }}')
        answer = daemon.kiln("compile", source, "--target", "cuda:90a", "--json")
        return answer.code == 0 and answer.objects()[0]["outcome"]

    with descriptors_of_this_machine(20_000), contextlib.ExitStack() as opened:
        daemon = opened.enter_context(Daemon(dataclasses.replace(programs, toolchains=CUDA), folder, environment={"KILN_SOCKETS_MODE": "0666"},
                                             descriptions=DESCRIPTIONS))
        before = len(os.listdir(f"/proc/{daemon.pid}/fd"))

        def open_idle(count, uid):
            connections = [connect(daemon, (http2.GREETING, PREAMBLE)[index % 2], uid) for index in range(count)]
            for connection in connections:
                opened.callback(connection.close)
            return connections

        first = open_idle(CONNECTIONS_OF_ONE_USER_MAX, FIRST_UID)
        second = open_idle(10_000 - len(first), FIRST_UID + 1)
        assert all(map(is_served, (first + second)[::2]))
        assert not gets_in(daemon, FIRST_UID)
        assert [compiled(daemon, name) for name in ("before", "before", "after")] == ["compiled", "hit", "compiled"]
        while daemon.kiln("stats", "--json").objects()[0]["connections"] > 10_001:
            pass  # those of the commands before count for up to two seconds
        time.sleep(3)  # as does that of the last one
        open_idle(CONNECTIONS_MAX - 10_000, FIRST_UID + 2)
        assert not gets_in(daemon, FIRST_UID + 3)
        assert gets_in(daemon, name="admin.sock")
        assert daemon.kiln("stats").code == 0
        taken = len(os.listdir(f"/proc/{daemon.pid}/fd"))
        assert CONNECTIONS_MAX <= taken < CONNECTIONS_MAX + before + 50
        assert taken < 20_000 - DESCRIPTORS_KEPT
        # A user who goes makes room.
        for connection in first:
            connection.close()
        deadline = time.monotonic() + 60
        while not gets_in(daemon, FIRST_UID + 3):
            assert time.monotonic() < deadline


@needs_root
def test_users_where_no_thread_can_be_had(victim):
    """gRPC ended the daemon of everybody."""
    assert is_served(connect(victim, name="admin.sock"))  # gRPC has its own threads
    with bounded(victim, "pids", ("pids.max", "pids.max"), threads_of(victim)):
        connections = [connect(victim, uid=FIRST_UID + index) for index in range(20)]
        assert all(map(is_served, connections))
        assert is_served(connect(victim, name="admin.sock"))
    assert victim.is_running()


@needs_root
def test_the_daemon_stops_where_no_thread_can_be_had(programs, folder):
    """It wanted one for each user."""
    (folder / "toolchains").mkdir()
    with Daemon(dataclasses.replace(programs, toolchains=folder / "toolchains"), folder, environment={"KILN_SOCKETS_MODE": "0666"}) as daemon:
        connections = [connect(daemon, uid=FIRST_UID + index) for index in range(20)]
        assert all(map(is_served, connections))
        with bounded(daemon, "pids", ("pids.max", "pids.max"), threads_of(daemon)):
            daemon.terminate()
            deadline = time.monotonic() + STOP_SECONDS_MAX
            while daemon.is_running():
                assert time.monotonic() < deadline, "it does not stop"
                time.sleep(0.05)
