"""kiln.Client and kiln.AsyncClient against a real kilnd."""

import asyncio
import contextlib
import gc
import hashlib
import json
import os
import pathlib
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import weakref

import pytest

import kiln
from job import package_environment
from kiln import _wire
from kiln._connection import Connection
from kiln.sockets import Endpoint, connected, find_socket
from kiln_triton_worker.warm_kernel import WARM_KERNEL as KERNEL
from places import PACKAGE, ROOT, TOOLCHAIN

FORKING_JOB = ROOT / "tests" / "testing" / "jobs" / "forking_job.py"
INTERRUPTED_JOB = ROOT / "tests" / "testing" / "jobs" / "interrupted_job.py"
FIRST_USE_JOB = ROOT / "tests" / "testing" / "jobs" / "first_use_job.py"

# Its binary is too large to come with an answer.
LARGE = kiln.CompileRequest(""".version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .b8 table[12000000] = {1};
.visible .entry k() { ret; }
""", "cuda:90", kind="ptx")


def request(tag="", **changes):
    """Each tag is a kernel of its own."""
    fields = dict(source=f"{KERNEL}// {tag}\n", target="cuda:90", toolchain="triton==3.6.0", options={"num_warps": 4}, stages=("cubin", "ptx"))
    return kiln.CompileRequest(**{**fields, **changes})


@pytest.fixture(scope="module")
def daemon(first_daemon, tmp_path_factory):
    """Publishes nothing: each hit takes a call."""
    with first_daemon.beside(tmp_path_factory.mktemp("kiln"), KILN_HOT_SIZE="0B") as running:
        yield running


@pytest.fixture
def client(daemon):
    with kiln.Client(root=str(daemon.root)) as connected:
        yield connected


def in_loop(daemon, work):
    async def run():
        async with kiln.AsyncClient(root=str(daemon.root)) as connected:
            return await work(connected)

    return asyncio.run(run())


# --- Compiling -------------------------------------------------------------------------------------------------------


def test_a_kernel_is_compiled_and_then_found(client):
    first = client.compile(request("found", stages=("ptx", "cubin")))
    again = client.compile(request("found", stages=("ptx", "cubin")))
    assert (first.outcome, again.outcome) == ("compiled", "hit") and again.tier in ("memory", "disk")
    assert first.key == again.key and list(first.stages) == ["ptx", "cubin"]
    assert first.binary == again.binary and first.binary.startswith(b"\x7fELF") and b".visible .entry warm" in first.content("ptx")
    assert hashlib.sha256(first.binary).hexdigest() == first.stages["cubin"].digest
    assert first.metadata.name == "warm" and first.metadata.num_warps == 4 and first.metadata.hidden_pointers == 2
    assert [parameter.name for parameter in first.metadata.parameters] == ["x", "y"]
    assert first.provenance.toolchain == "triton==3.6.0" and first.provenance.compile_seconds > 0
    assert {"ttgir", "ptx", "cubin"} <= set(first.timings)


def test_the_client_gets_the_binary_that_the_command_gets(client, daemon, tmp_path):
    (tmp_path / "k.ttir").write_text(request("same").source)
    done = daemon.kiln("compile", tmp_path / "k.ttir", "--target", "cuda:90", "--toolchain", "triton==3.6.0", "--option", "num_warps=4",
                       "-o", tmp_path / "out")
    assert done.code == 0, done.error
    artifact = client.compile(request("same"))
    assert artifact.outcome == "hit" and artifact.binary == (tmp_path / "out" / "k.cubin").read_bytes()


def test_ptx(client):
    ptx = client.compile(request("ptx", stages=("ptx",))).content("ptx")
    artifact = client.compile(kiln.CompileRequest(ptx, "cuda:90a", kind="ptx", options={"opt-level": 1}))
    assert artifact.binary.startswith(b"\x7fELF") and artifact.metadata.registers > 0


def test_values_keep_their_type(client):
    """Had a tuple become a string or an integer a float on the way, the backend would refuse it."""
    options = {"num_warps": 2, "enable_fp_fusion": False, "supported_fp8_dtypes": ("fp8e5",), "maxnreg": None, "debug": True}
    artifact = client.compile(request("types", options=options))
    made = json.loads(artifact.metadata.toolchain_metadata)
    assert (made["num_warps"], made["enable_fp_fusion"], made["supported_fp8_dtypes"], made["debug"]) == (2, False, ["fp8e5"], True)


def test_a_source_that_does_not_compile(client):
    with pytest.raises(kiln.CompilationError) as caught:
        client.compile(request(source="module {\n  tt.func public @k() {\n    nonsense\n  }\n}\n"))
    assert caught.value.code == "INVALID_ARGUMENT"
    assert (caught.value.diagnostics.stage, caught.value.diagnostics.line) == ("parse", 3)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is kiln.CompilationError and copy.diagnostics == caught.value.diagnostics and str(copy) == str(caught.value)
    assert copy.key == caught.value.key == caught.value.diagnostics.key and len(copy.key) == 64


def test_notes_of_the_compiler_are_returned(client):
    bitcast = "%b = arith.bitcast %a : tensor<128xf8E4M3FN> to tensor<128xi8>"
    source = ("module {\n  tt.func public @k(%x: i32) {\n    %c = arith.constant dense<1.0> : tensor<128xf32>\n    %a = tt.fp_to_fp %c, "
              f"rounding = rtne : tensor<128xf32> -> tensor<128xf8E4M3FN>\n    {bitcast}\n    tt.return\n  }}\n}}\n")
    with pytest.raises(kiln.CompilationError) as caught:
        client.compile(request(source=source))
    diagnostics = caught.value.diagnostics
    assert (diagnostics.stage, diagnostics.line) == ("ttgir", 5)
    [note] = diagnostics.notes
    assert (note.file, note.line) == ("", 1) and "ConvertTritonToTritonGPU" in note.message
    assert pickle.loads(pickle.dumps(caught.value)).diagnostics.notes == diagnostics.notes


@pytest.mark.parametrize("changes,kind,words", [
    (dict(options={"no_such": 1}), kiln.InvalidArgumentError, "no_such"),
    (dict(options={"num_warps": 4.5}), kiln.InvalidArgumentError, "num_warps"),
    (dict(options={"num_warps": object()}), kiln.InvalidArgumentError, "num_warps"),
    (dict(options={"num_warps": 2**70}), kiln.InvalidArgumentError, "64 bits"),
    (dict(target="cuda"), kiln.InvalidArgumentError, "cuda:90"),
    (dict(kind="c"), kiln.InvalidArgumentError, "ttir, ttgir"),
    (dict(stages="cubin"), kiln.InvalidArgumentError, "stages: 'cubin' is of type str"),
    (dict(toolchain="triton==0.1"), kiln.FailedPreconditionError, "3.6.0"),
    (dict(cache="only-if-cached"), kiln.NotFoundError, "not in the cache"),
])
def test_errors_have_a_class_of_their_own(client, changes, kind, words):
    with pytest.raises(kind, match=words) as caught:
        client.compile(request(f"error {changes}", **changes))
    assert type(caught.value) is kind
    # What is valid and fits a toolchain has a key, whatever comes of it.
    assert len(caught.value.key) == (64 if kind is kiln.NotFoundError else 0)


@pytest.mark.parametrize("changes,words", [
    (dict(source="/" * (17 << 20)), "the source is 17825792 bytes long; at most 16777216 .16 MiB."),
    (dict(kind="cuda", headers={"a.h": "/" * (16 << 20)}), "source and headers are .* .16 MiB"),
])
def test_a_request_over_the_limit_is_not_sent(client, changes, words):
    with pytest.raises(kiln.ResourceExhaustedError, match=words):
        client.compile(request(**changes))


@pytest.mark.parametrize("place", [dict(root=""), dict(socket="run/kilnd.sock")])
def test_a_place_may_be_a_path(daemon, place):
    (name, inside), = place.items()
    with kiln.Client(**{name: pathlib.Path(daemon.root) / inside}) as client:
        assert client.socket_path == f"{daemon.root}/run/kilnd.sock"


# --- A ptxas by its path ---------------------------------------------------------------------------------------------

PTXAS, = TOOLCHAIN.glob("lib/python3.*/site-packages/triton/backends/nvidia/bin/ptxas-blackwell")


def test_a_ptxas_is_named_by_its_path_as_well(client, daemon, tmp_path):
    elsewhere = shutil.copy2(PTXAS, tmp_path / "other")
    digest = hashlib.sha256(PTXAS.read_bytes()).hexdigest()
    expected = client.compile(request("by path", ptxas=digest))
    plain = client.compile(request("by path"))
    assert expected.key != plain.key and expected.provenance.assembler.startswith("ptxas 12.9")
    given = [request("by path", ptxas=path) for path in (PTXAS, str(PTXAS), elsewhere, pathlib.Path(os.path.relpath(PTXAS)))]

    async def work(client):
        return [await client.compile(one) for one in given], dict([answer async for answer in client.compile_many(given)])

    one_by_one, together = in_loop(daemon, work)
    for answers in (map(client.compile, given), dict(client.compile_many(given)).values(), one_by_one, together.values()):
        assert {(answer.key, answer.outcome) for answer in answers} == {(expected.key, "hit")}
    assert all(client.nearest(one).key == plain.key for one in given)


def test_a_ptxas_that_is_another_one_by_now_is_read_again(tmp_path):
    path = tmp_path / "ptxas"
    for content in (b"one", b"another"):  # of another length: older kernels give files that are written soon after one another the same time
        path.write_bytes(content)
        path.chmod(0o755)
        message = _wire.request_message(request(ptxas=path))
        assert message.ptxas == hashlib.sha256(content).hexdigest()


def test_a_ptxas_that_the_daemon_has_not_got_is_named(client, daemon, tmp_path):
    path = tmp_path / "ptxas"
    path.write_bytes(b"no ptxas")
    path.chmod(0o755)
    asked = request(ptxas=path)

    async def work(client):
        with pytest.raises(kiln.FailedPreconditionError) as caught:
            await client.compile(asked)
        return caught.value

    with pytest.raises(kiln.FailedPreconditionError) as caught:
        client.compile(asked)
    for error in (caught.value, dict(client.compile_many([asked]))[0], in_loop(daemon, work)):
        assert str(error).startswith(f"{path}: the daemon has no ptxas of these bytes; where it is one, 'kiln toolchain add ptxas --path"), error
    with pytest.raises(kiln.FailedPreconditionError) as caught:
        client.compile(request(toolchain="triton==0.1"))
    assert str(path) not in str(caught.value)


def test_a_path_that_is_not_a_ptxas_is_refused(client, tmp_path):
    (tmp_path / "text").write_text("text")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe", 0o755)
    for path, words in ((tmp_path / "none", "none': No such file or directory"), (tmp_path, "': Is a directory"),
                        (tmp_path / "text", "text' is not a program: it is not executable"), (tmp_path / "pipe", "pipe' is not a program"),
                        (tmp_path / "text" / "ptxas", "ptxas': Not a directory"), (tmp_path / "loop", "Too many levels of symbolic links"),
                        (pathlib.Path(""), "ptxas: '.': Is a directory"), ("/no\0where", "embedded null byte"), ("/\ud800", "surrogates not allowed")):
        for given in {path, str(path)} if len(str(path)) > 1 else {path}:
            with pytest.raises(kiln.InvalidArgumentError, match=re.escape(words)) as caught:
                client.compile(request(ptxas=given))
            assert str(caught.value).startswith("ptxas: "), caught.value


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_a_ptxas_that_may_not_be_read(tmp_path):
    path = tmp_path / "ptxas"
    path.write_bytes(b"")
    path.chmod(0o711)
    os.seteuid(65534)
    try:
        with pytest.raises(kiln.InvalidArgumentError, match=f"ptxas: '{path}': Permission denied"):
            _wire.request_message(request(ptxas=path))
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41b", "a%2Fb", "a b", "a+b", "[a]", "a:b", "\u00e4", "\udcff"], ids=ascii)
def test_a_folder_may_be_called_anything(daemon, tmp_path, name):
    (tmp_path / name).symlink_to(daemon.root)
    with kiln.Client(root=tmp_path / name) as client:
        assert client.lookup(["0" * 64]) == [None]


def test_a_timeout_is_kept(client, daemon):
    """The daemon is stopped meanwhile: on a busy machine its answer might be there when this process runs again."""
    client.toolchains()  # a connection
    daemon.stop_answering()
    try:
        with pytest.raises(kiln.DeadlineExceededError):
            client.compile(request("in no time"), timeout=0.001)
    finally:
        daemon.go_on()


# --- Many ------------------------------------------------------------------------------------------------------------


def test_many_with_bad_ones_among_them(client):
    requests = [request(f"many {index}", **({"source": "nonsense"} if index == 5 else {"target": "x"} if index == 6 else {}))
                for index in range(12)]
    answers = dict(client.compile_many(iter(requests)))
    assert sorted(answers) == list(range(12))
    assert type(answers.pop(5)) is kiln.CompilationError and type(answers.pop(6)) is kiln.InvalidArgumentError
    assert all(isinstance(answer, kiln.Artifact) and answer.binary for answer in answers.values())


def test_a_malformed_request_is_answered_like_the_others(client, daemon):
    client.compile(request("beside others"))
    given = [request("beside others"), "foo", None, request("beside others")]

    async def work(client):
        return {index: answer async for index, answer in client.compile_many(given)}

    for answers in (dict(client.compile_many(given)), in_loop(daemon, work)):
        assert sorted(answers) == [0, 1, 2, 3] and answers[3].outcome == "hit"
        assert type(answers[1]) is type(answers[2]) is kiln.InvalidArgumentError and "'foo' is of type str" in str(answers[1])


@pytest.fixture
def fetching(monkeypatch):
    """Has something done before each blob is fetched that was too large for an answer."""

    def before(act):
        call = Connection.call

        def called(self, method, message, deadline):
            if method == "Fetch":
                act()
            return call(self, method, message, deadline)

        monkeypatch.setattr(Connection, "call", called)

    return before


def test_a_missing_binary_does_not_end_a_batch(client, daemon, fetching):
    fetching(lambda: daemon.kiln("evict", "--all"))
    answers = dict(client.compile_many([LARGE, request("beside a large one"), LARGE]))
    assert type(answers[0]) is type(answers[2]) is kiln.NotFoundError and isinstance(answers[1], kiln.Artifact)


def test_a_connection_that_breaks_before_a_binary_is_fetched_answers_that_request(other_daemon, fetching):
    with other_daemon:
        client, answers = kiln.Client(root=str(other_daemon.root)), {}
        fetching(other_daemon.kill)
        with pytest.raises(kiln.UnavailableError):
            for index, answer in client.compile_many([LARGE]):
                answers[index] = answer
        assert type(answers[0]) is kiln.UnavailableError


def test_more_than_may_be_in_flight(client):
    client.compile(request("flight"))
    taken = []

    def source():
        for index in range(300):
            taken.append(index)
            yield request("flight")

    seen = 0
    for _, answer in client.compile_many(source(), in_flight=8):
        assert answer.outcome == "hit"
        seen += 1
        assert len(taken) <= seen + 8 + 1
    assert seen == 300


def test_a_batch_that_is_left_early_can_go_on(client):
    client.compile(request("flight"))
    for _, answer in client.compile_many(request("flight") for _ in range(100)):
        break
    assert answer.outcome == "hit" and client.compile(request("flight")).outcome == "hit"


def test_an_error_of_the_requests_themselves_is_raised(client):
    def source():
        yield request("flight")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(client.compile_many(source()))


# --- Looking up ------------------------------------------------------------------------------------------------------


def test_looking_up(client):
    stored = client.compile(request("stored"))
    found, absent = client.lookup([stored.key, "0" * 64])
    assert absent is None and found.key == stored.key and found.metadata == stored.metadata
    with pytest.raises(KeyError):
        found.binary
    assert client.fetch(found.stages["cubin"].digest) == stored.binary
    assert client.lookup([stored.key] * 5000) == [found] * 5000
    with pytest.raises(kiln.NotFoundError):
        client.fetch("0" * 64)
    with pytest.raises(kiln.InvalidArgumentError):
        client.lookup(["abc"])
    with pytest.raises(kiln.InvalidArgumentError, match="keys: '0{64}' is of type str"):
        client.lookup("0" * 64)
    with pytest.raises(kiln.InvalidArgumentError, match="keys: b'key' is of type bytes"):
        client.get_own(b"key")


def test_the_nearest(client, daemon):
    asked = request("near", options={"num_warps": 4, "num_stages": 2})
    assert client.nearest(request(source="tt.func public @nobody_has_it() {}")) is None
    for options in ({"num_warps": 8, "num_stages": 3}, {"num_warps": 8, "num_stages": 2}):
        stored = client.compile(request("near", options=options))
    nearest = client.nearest(asked)
    assert (nearest.key, nearest.target, nearest.toolchain, nearest.has_seen_all) == (stored.key, "cuda:90", "triton==3.6.0", True)
    assert nearest.differences == (kiln.Difference("num_warps", "default", "8"),) and nearest.created_at > 1e9
    assert str(nearest) == f"{stored.key[:12]} (num_warps: asked default, stored 8)"
    other, = client.nearest(request("quite another text", options={"num_warps": 8, "num_stages": 2})).differences
    assert other.field == "source" and "another" not in str(other) and other.asked.endswith(" bytes)")

    async def work(client):
        return await client.nearest(asked)

    assert in_loop(daemon, work) == nearest
    with pytest.raises(kiln.InvalidArgumentError, match="no_such"):
        client.nearest(request(options={"no_such": 1}))


def test_the_command_tells_the_nearest(client, daemon, tmp_path):
    stored = client.compile(request("near the command", options={"num_warps": 8}))
    (tmp_path / "k.ttir").write_text(request("near the command").source)
    ask = ("compile", tmp_path / "k.ttir", "--target", "cuda:90", "--toolchain", "triton==3.6.0", "--cache", "only-if-cached")
    done = daemon.kiln(*ask)
    assert done.code == 1 and f"nearest in the cache: {stored.key}\n    num_warps: asked default, stored 8\n" in done.error, done.error
    answer, _ = daemon.kiln(*ask, "--json").objects()
    assert answer["nearest"] == {"key": stored.key, "differences": [{"field": "num_warps", "asked": "default", "stored": "8"}]}
    hit, _ = daemon.kiln(*ask, "--json", "--option", "num_warps=8").objects()
    assert hit["outcome"] == "hit" and "nearest" not in hit


def test_the_toolchains(client):
    triton, = [one for one in client.toolchains() if one.name == "triton"]
    cuda, = [one for one in triton.backends if one.backend == "cuda"]
    warps, = [one for one in cuda.options if one.name == "num_warps"]
    assert (triton.version, cuda.stages[-1], warps.type, warps.default) == ("3.6.0", "cubin", "integer", 4)
    assert client.compile(request("stored", toolchain=triton.fingerprint)).outcome in ("hit", "compiled")


def test_the_key_can_be_computed(client):
    triton, = [one for one in client.toolchains() if one.name == "triton"]
    computed = kiln.compile_key(kind="ttir", source=request("key").source, backend="cuda", architecture="90", warp_size=32,
                                toolchain_fingerprint=bytes.fromhex(triton.fingerprint))
    assert client.compile(request("key")).key == computed  # 4 warps are the default


# --- asyncio ---------------------------------------------------------------------------------------------------------


def test_asynchronous(daemon):
    async def work(client):
        first = await client.compile(request("async"))
        answers = {index: answer async for index, answer in client.compile_many(
            [request("async"), request(source="nonsense"), *(request(f"async {index}") for index in range(6))], in_flight=3)}
        found, = await client.lookup([first.key])
        blob = await client.fetch(found.stages["cubin"].digest)
        return first, answers, blob, await client.toolchains()

    first, answers, blob, toolchains = in_loop(daemon, work)
    assert first.outcome == "compiled" and blob == first.binary and toolchains
    assert sorted(answers) == list(range(8)) and type(answers[1]) is kiln.CompilationError and answers[0].outcome == "hit"


def test_asynchronous_errors(daemon, tmp_path):
    async def work(client):
        with pytest.raises(kiln.NotFoundError):
            await client.compile(request("async absent", cache="only-if-cached"))
        with pytest.raises(kiln.DeadlineExceededError):
            await client.compile(request("async in no time"), timeout=0.001)
        with pytest.raises(kiln.InvalidArgumentError, match="keys: "):
            await client.lookup("0" * 64)
        task = asyncio.ensure_future(client.compile(request("async cancelled")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return True

    assert in_loop(daemon, work)

    async def nobody():
        await kiln.AsyncClient(root=str(tmp_path)).connect()

    with pytest.raises(kiln.UnavailableError):
        asyncio.run(nobody())


# --- A daemon that is away -------------------------------------------------------------------------------------------


# --- The own namespace -----------------------------------------------------------------------------------------------


def test_a_process_gets_the_entries_of_the_same_user(client, daemon):
    client.put_own({b"a": {"x": b"1", "y": b""}, b"b\0\xff": {"z": b"2"}})
    with kiln.Client(root=str(daemon.root)) as other:
        assert other.get_own([b"b\0\xff", b"none", b"a"]) == {b"b\0\xff": {"z": b"2"}, b"a": {"x": b"1", "y": b""}}
        assert list(other.get_own([b"a"])[b"a"]) == ["x", "y"]
    client.put_own({b"a": {"x": b"3"}})
    assert client.get_own([b"a"]) == {b"a": {"x": b"3"}}


def test_an_artifacts_output_is_there_as_long_as_the_artifact(client, daemon):
    artifact = client.compile(request("own"))
    cubin = artifact.stages["cubin"]
    client.put_own({b"output": {"k.cubin": kiln.ArtifactOutput(artifact.key, "cubin", cubin.digest), "k.json": b"{}"}})
    assert client.get_own([b"output"]) == {b"output": {"k.cubin": artifact.binary, "k.json": b"{}"}}
    assert daemon.kiln("evict", artifact.key).code == 0
    assert client.get_own([b"output"]) == {}
    with pytest.raises(kiln.NotFoundError):
        client.put_own({b"output": {"k.cubin": kiln.ArtifactOutput(artifact.key, "cubin", cubin.digest)}})


def test_fields_over_their_limits_are_refused(client):
    for wrong in ({b"": {"x": b""}}, {b"k" * 257: {"x": b""}}, {b"k": {}}, {b"k": {"": b""}}, {b"k": {"x": b"y" * (16 << 20) + b"y"}}):
        with pytest.raises(kiln.InvalidArgumentError):
            client.put_own(wrong)
    with pytest.raises(kiln.KilnError):  # more than a message takes
        client.put_own({str(number).encode(): {"x": b"y" * (6 << 20)} for number in range(3)})
    assert client.get_own([b"k"]) == {}


def test_answers_any_number_of_keys_and_bytes(client):
    for number in range(3):
        client.put_own({b"large%d" % number: {"x": b"%d" % number * (12 << 20)}})
    keys = [b"none%d" % number for number in range(300)] + [b"large0", b"large1", b"large2"]
    found = client.get_own(keys)
    assert list(found) == [b"large0", b"large1", b"large2"] and found[b"large2"]["x"] == b"2" * (12 << 20)


def test_the_own_namespace_in_a_loop(daemon):

    async def work(client):
        await client.put_own({b"loop": {"x": b"1"}})
        return await client.get_own([b"loop", b"none"])

    assert in_loop(daemon, work) == {b"loop": {"x": b"1"}}


@pytest.mark.slow
def test_a_put_over_the_rate_limit_gets_a_retry_hint(other_daemon):
    entries = {b"%d" % number: {"file": b""} for number in range(256)}
    with other_daemon as daemon, kiln.Client(root=str(daemon.root), attempts=1) as client:
        with pytest.raises(kiln.ResourceExhaustedError, match="into its own namespace") as refused:
            for _ in range(10_000):
                client.put_own(entries)
        assert 0 < refused.value.retry_after_s < 1
        assert client.get_own([b"0"]) == {b"0": {"file": b""}}
        with kiln.Client(root=str(daemon.root), attempts=100) as patient:
            patient.put_own(entries)


def test_the_plug_in_keeps_nothing_until_the_daemon_takes_it_again(monkeypatch):
    from kiln._plugin import service
    from kiln._plugin.settings import Settings

    now = [1000.0]
    monkeypatch.setattr(service, "time", types.SimpleNamespace(monotonic=lambda: now[0]))

    class Refusing:

        def put_own(self, entries, timeout, tunings, job):
            raise kiln.ResourceExhaustedError("too fast", retry_after_s=2.5)

        def get_own(self, keys, timeout, tunings=False, job=""):
            return {}

    plugin = service.Service(Settings())
    plugin._client = Refusing()
    for seconds, words in ((0, "RESOURCE_EXHAUSTED"), (2.4, "out of use"), (2.6, "RESOURCE_EXHAUSTED")):
        now[0] = 1000 + seconds
        with pytest.raises(service.Declined, match=words):
            plugin.put_own(b"key", {})
    assert plugin.get_own(b"key") is None


def test_a_missing_daemon_is_reported_at_once(tmp_path):
    started = time.monotonic()
    with pytest.raises(kiln.UnavailableError, match="no socket at"):
        kiln.Client(root=str(tmp_path))
    assert time.monotonic() - started < 0.1


def test_a_path_that_is_not_a_socket_is_refused_with_advice(tmp_path):
    (tmp_path / "file").write_text("")
    for path, words in ((tmp_path, f"{tmp_path} is a directory, not a daemon's socket: name the kilnd.sock in it"),
                        (tmp_path / "file", f"{tmp_path}/file is a file, not a daemon's socket: start kilnd, or say where"),
                        (tmp_path / "none" / "s", f"no socket at {tmp_path}/none/s, and no directory {tmp_path}/none: start kilnd, or"),
                        (tmp_path / "file" / "s", f"no socket at {tmp_path}/file/s, and no directory {tmp_path}/file: start kilnd, or"),
                        (tmp_path / "s", f"no socket at {tmp_path}/s: start kilnd, or say where it is, with socket=")):
        with pytest.raises(kiln.UnavailableError, match=re.escape(words)):
            kiln.Client(socket=str(path))


def test_a_socket_that_was_left_behind(tmp_path):
    path = tmp_path / "kilnd.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    started = time.monotonic()
    with pytest.raises(kiln.UnavailableError, match="no process listens"):
        kiln.Client(socket=str(path))
    assert time.monotonic() - started < 0.1


@pytest.fixture
def stopped(other_daemon):
    """A daemon and a way to stop it from answering."""
    with other_daemon as running:
        yield running
        running.go_on()


def test_a_stopped_daemon_is_noticed(stopped):
    client = kiln.Client(root=str(stopped.root))
    stopped.stop_answering()
    for ask in (lambda: kiln.Client(root=str(stopped.root)), lambda: client.compile(request("stopped")), lambda: client.fetch("0" * 64)):
        started = time.monotonic()
        with pytest.raises(kiln.UnavailableError, match="does not answer"):
            ask()
        assert time.monotonic() - started < 1.3
    with pytest.raises(kiln.UnavailableError, match="does not answer"):
        list(client.compile_many([request("stopped")]))

    async def wait():
        await kiln.AsyncClient(root=str(stopped.root)).connect()

    with pytest.raises(kiln.UnavailableError, match="does not answer"):
        asyncio.run(wait())


def test_a_connection_that_is_not_answered_is_closed(stopped, monkeypatch):
    closed, close = [], Connection.close
    monkeypatch.setattr(Connection, "close", lambda connection: closed.append(close(connection)))
    stopped.stop_answering()
    with pytest.raises(kiln.UnavailableError, match="does not answer"):
        kiln.Client(root=str(stopped.root))
    assert len(closed) == 1


def test_a_greeting_that_is_cancelled(stopped):
    connection = Connection(Endpoint(root=stopped.root, answer_s=60))
    stopped.stop_answering()
    threading.Timer(0.1, connection.cancel).start()
    with pytest.raises(kiln.CallCancelledError):
        connection.greet(60)


def test_the_time_to_find_a_daemon_counts_towards_its_answer(daemon, monkeypatch):
    waited, greet = [], Connection.greet
    monkeypatch.setattr(Connection, "greet", lambda self, within_s: waited.append(within_s) or greet(self, 20))
    for began in (None, time.monotonic() - 3, time.monotonic() - 60):
        kiln.Client(root=str(daemon.root), connect_timeout=2, answer_timeout=10, _began=began)
    assert 7 < waited[0] < 10 and 5 <= waited[1] < 7 and waited[2] == 5


def test_closing_ends_calls_under_way(stopped):
    client = kiln.Client(root=str(stopped.root), answer_timeout=60)
    stopped.stop_answering()
    threading.Timer(0.1, client.close).start()
    with pytest.raises(kiln.CallCancelledError):
        client.lookup(["0" * 64])
    stopped.go_on()
    assert client.lookup(["0" * 64]) == [None]  # by a new connection


@pytest.mark.slow
def test_a_daemon_that_restarts_is_found_again(other_daemon):
    with other_daemon:
        client = kiln.Client(root=str(other_daemon.root))
        first = client.compile(request("restart"))
        other_daemon.kill()
        with pytest.raises(kiln.UnavailableError):
            client.compile(request("restart"))
        with other_daemon:
            assert client.compile(request("restart")).key == first.key


@pytest.mark.parametrize("hint_s,earliest_s", [(None, 0), (0.5, 0.5), (2, 2), (1e9, 30)])
def test_clients_with_the_same_hint_do_not_come_back_at_once(client, monkeypatch, hint_s, earliest_s):
    """As libkiln does, which adds a random wait to the daemon's hint, and believes no long one."""
    waits = []
    monkeypatch.setattr(kiln.client.time, "sleep", waits.append)
    kind = kiln.UnavailableError if hint_s is None else kiln.ResourceExhaustedError

    def refuse():
        raise kind("full", retry_after_s=hint_s)

    monkeypatch.setattr(client, "_take", refuse)
    for _ in range(20):
        with pytest.raises(kind):
            client.toolchains()
    on_top = [wait - earliest_s for wait in waits]
    assert len(set(waits)) == len(waits) == 80
    for attempt, pause_s in enumerate((0.02, 0.04, 0.08, 0.16)):
        assert all(0.49 * pause_s <= one <= 1.01 * pause_s for one in on_top[attempt::4]), on_top


def test_a_connection_that_breaks_answers_what_was_in_flight(other_daemon):
    with other_daemon:
        client = kiln.Client(root=str(other_daemon.root))
        other_daemon.stop_answering()
        answers, stream = {}, client.compile_many([request(f"broken {index}") for index in range(4)])
        killing = threading.Timer(0.1, other_daemon.kill)
        killing.start()
        with pytest.raises(kiln.UnavailableError):
            for index, answer in stream:
                answers[index] = answer
        killing.join()
        assert sorted(answers) == [0, 1, 2, 3]
        assert all(isinstance(answer, kiln.UnavailableError) for answer in answers.values())


def test_in_a_loop_each_request_is_answered_where_the_daemon_is_gone(other_daemon):
    async def work(client):
        assert (await client.compile(request("gone"))).binary
        other_daemon.kill()
        return {index: answer async for index, answer in client.compile_many([request("gone")] * 4, in_flight=2)}

    with other_daemon:
        answers = in_loop(other_daemon, work)
    assert {index: type(answer) for index, answer in answers.items()} == dict.fromkeys(range(4), kiln.UnavailableError)


# --- Whom it trusts --------------------------------------------------------------------------------------------------


def test_a_folder_that_everyone_may_change(daemon, tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "kilnd.sock"))
        listener.listen()
        with pytest.raises(kiln.PermissionDeniedError, match="another socket may take the place"):
            connected(str(folder / "kilnd.sock"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to have another user serve")
def test_a_socket_of_somebody_else(programs, tmp_path):
    path = tmp_path / "kilnd.sock"
    serve = ("import os, socket, sys, time\nlistener = socket.socket(socket.AF_UNIX)\nlistener.bind(sys.argv[1])\nos.chmod(sys.argv[1], 0o777)\n"
             "os.setuid(65534)\nlistener.listen()\nprint('ready', flush=True)\nsys.stdin.read()\n")
    with subprocess.Popen([sys.executable, "-c", serve, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        try:
            server.stdout.readline()
            with pytest.raises(kiln.PermissionDeniedError, match="served by uid 65534.*give server_uid=65534$"):
                connected(str(path))
            with pytest.raises(kiln.PermissionDeniedError, match="set KILN_SERVER_UID=65534$"):
                connected(str(path), is_plugin=True)
            said = subprocess.run([programs.kiln, "--socket", path, "stats"], capture_output=True, text=True, check=False)
            assert "served by uid 65534" in said.stderr and "  try: --server-uid 65534," in said.stderr and "group" not in said.stderr, said
            connected(str(path), server_uid=65534)
        finally:
            server.stdin.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
def test_a_daemon_of_somebody_else_with_a_socket_for_operators(programs):
    serve = ("import os, socket, sys\nlisteners = []\nfor name, mode in (('kilnd.sock', 0o777), ('admin.sock', 0o600)):\n"
             "    one = socket.socket(socket.AF_UNIX)\n    one.bind(f'{sys.argv[1]}/{name}')\n    os.chmod(f'{sys.argv[1]}/{name}', mode)\n"
             "    listeners.append(one)\nos.setuid(65534)\nfor one in listeners:\n    one.listen()\nprint('ready', flush=True)\nsys.stdin.read()\n")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with subprocess.Popen([sys.executable, "-c", serve, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            server.stdout.readline()
            said = subprocess.run([programs.kiln, "--socket", f"{folder}/kilnd.sock", "stats"], capture_output=True, text=True, check=False,
                                  user=60001, group=60001, extra_groups=[])
            server.stdin.close()
    assert "served by uid 65534" in said.stderr and "  try: --server-uid 65534," in said.stderr and "admin" not in said.stderr, said


# --- Where it looks, what it imports ---------------------------------------------------------------------------------


@pytest.mark.parametrize("explicit,root,environment,uid,there,expected", [
    ("/a.sock", "/r", {"KILN_ROOT": "/k"}, 7, (), "/a.sock"),
    ("", "/r", {"KILN_ROOT": "/k"}, 7, (), "/r/run/kilnd.sock"),
    ("", "", {"KILN_ROOT": "/k"}, 7, (), "/k/run/kilnd.sock"),
    ("", "", {"XDG_RUNTIME_DIR": "/x", "HOME": "/h"}, 7, ("/x/kiln/kilnd.sock", "/run/kiln/kilnd.sock"), "/x/kiln/kilnd.sock"),
    ("", "", {"XDG_RUNTIME_DIR": "", "XDG_STATE_HOME": "/s", "HOME": "/h"}, 7, ("/s/kiln/run/kilnd.sock",), "/s/kiln/run/kilnd.sock"),
    ("", "", {"HOME": "/h"}, 7, ("/h/.local/state/kiln/run/kilnd.sock",), "/h/.local/state/kiln/run/kilnd.sock"),
    ("", "", {"XDG_RUNTIME_DIR": "/x"}, 7, ("/run/kiln/kilnd.sock",), "/run/kiln/kilnd.sock"),
    ("", "", {"XDG_RUNTIME_DIR": "/x"}, 0, ("/x/kiln/kilnd.sock", "/run/kiln/kilnd.sock"), "/run/kiln/kilnd.sock"),
    ("", "", {"XDG_RUNTIME_DIR": "/x"}, 7, ("/x/kiln/hot/toolchains", "/run/kiln/kilnd.sock"), "/run/kiln/kilnd.sock"),
    ("", "", {"XDG_RUNTIME_DIR": "/x"}, 7, ("/x/kiln/hot/toolchains",), "/x/kiln/kilnd.sock"),
])
def test_the_client_searches_the_sockets_usual_places(explicit, root, environment, uid, there, expected):
    assert find_socket(explicit, root, environment=environment, uid=uid, exists=there.__contains__) == expected


def test_every_place_is_named_where_there_is_none():
    with pytest.raises(kiln.UnavailableError, match="/x/kiln/kilnd.sock or /run/kiln/kilnd.sock"):
        find_socket(environment={"XDG_RUNTIME_DIR": "/x"}, uid=7, exists=lambda path: False)
    with pytest.raises(kiln.UnavailableError, match="say where it is, with KILN_ROOT \\(what"):
        find_socket(environment={"XDG_RUNTIME_DIR": "/x"}, uid=7, exists=lambda path: False, is_plugin=True)


def test_importing_it_imports_no_protobuf():
    script = "import sys, threading, kiln; print(threading.active_count(), sorted({'grpc', 'google.protobuf'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "[]"]


def test_asking_starts_no_thread_and_imports_no_grpc(daemon):
    script = ("import sys, threading, kiln\nclient = kiln.Client(answer_timeout=20)\nassert client.lookup(['0' * 64]) == [None]\n"
              "list(client.compile_many([]))\nimport kiln.aio\nprint(threading.active_count(), 'grpc' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", script], env={**package_environment(), "KILN_ROOT": str(daemon.root)}, capture_output=True, text=True,
                          check=False)
    assert done.stdout.split() == ["1", "False"] and not done.stderr, done.stderr


def test_everything_that_is_exported_is_there():
    assert all(getattr(kiln, name) is not None for name in kiln.__all__)
    assert not hasattr(kiln, "nothing")


# --- Forks -----------------------------------------------------------------------------------------------------------


def test_children_connect_anew(client):
    """Several at once, of a parent that is idle."""
    key = client.compile(request("forked")).key
    children = []
    for index in range(8):
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(0 if client.compile(request("forked"), timeout=30).key == key else 1)
            except BaseException:
                os._exit(2)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 8
    assert client.compile(request("forked")).outcome == "hit"


@pytest.mark.slow
@pytest.mark.parametrize("situation", ["threads", "compile", "many", "handler", "nested_handlers", "asynchronous"])
def test_forks_while_calls_are_under_way(daemon, situation):
    """Neither the parent nor a child crashes or hangs, and every call is answered."""
    done = subprocess.run([sys.executable, "-B", FORKING_JOB, daemon.root, situation], input=KERNEL, env=package_environment(),
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{done.returncode}\n{done.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("situation", ["plugin", "client", "own_modules", "too_slow"])
def test_forks_while_another_thread_imports(daemon, situation):
    """A child has the locks of Python's imports without the thread that would give them back."""
    done = subprocess.run([sys.executable, "-B", FIRST_USE_JOB, daemon.root, situation], env=package_environment(), capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.returncode}\n{done.stderr}"


@pytest.mark.parametrize("situation", ["handler", "handler_in_greeting"])
def test_signal_handlers_that_call_while_their_thread_connects(daemon, situation):
    done = subprocess.run([sys.executable, "-B", FIRST_USE_JOB, daemon.root, situation], env=package_environment(), capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.returncode}\n{done.stderr}"


@pytest.mark.parametrize("situation", ["alone", "closed", "beside_others"])
def test_calls_go_on_after_exceptions_out_of_a_signals_handler(daemon, situation):
    """They come anywhere."""
    done = subprocess.run([sys.executable, "-B", INTERRUPTED_JOB, daemon.root, situation], env=package_environment(), capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.returncode}\n{done.stderr}"


class Mine:
    """What a program has at hand while it calls, gigabytes maybe."""


FAILING_CALLS = {
    "a call": lambda client, _: client.compile(request(toolchain="triton==9.9.9")),
    "a fetch": lambda client, _: client.fetch("0" * 64),
    "a call that takes too long": lambda client, _: client.compile(request("kept", cache="refresh"), timeout=0.001),
    "one of many": lambda client, _: next(client.compile_many([request(toolchain="triton==9.9.9")]))[1],
    "many whose connection is lost": lambda client, _: list(client.compile_many(lose_connection(client))),
    "a greeting": lambda client, _: Connection(client._endpoint).greet(0.0),
    "a greeting of nobody": lambda client, _: greet_nobody(client),
    "a loop's": lambda _, daemon: in_loop(daemon, fail_in_loop),
    "one of a loop's many": lambda _, daemon: in_loop(daemon, one_of_many),
}


def greet_nobody(client):
    """Of whom one learns after having connected."""
    connection = Connection(client._endpoint)
    connection.close()
    connection.greet(20)


def lose_connection(client):
    """Between two requests."""
    yield request("kept", cache="refresh")
    next(iter(client._busy)).close()
    yield request("kept", cache="refresh")


async def fail_in_loop(connected):
    """Not what the loop itself is left with, which keeps all of its frames."""
    with contextlib.suppress(kiln.FailedPreconditionError):
        await connected.compile(request(toolchain="triton==9.9.9"))


async def one_of_many(connected):
    async for _, answer in connected.compile_many([request(toolchain="triton==9.9.9")]):
        return answer


@pytest.mark.parametrize("what", FAILING_CALLS)
def test_a_failed_call_keeps_nothing_of_its_callers(client, daemon, what):
    """Until somebody collects the garbage, or for good."""

    def fail():
        mine = Mine()
        with contextlib.suppress(kiln.KilnError):
            FAILING_CALLS[what](client, daemon)
        return weakref.ref(mine)

    def errors():
        return {id(one) for one in gc.get_objects() if issubclass(type(one), kiln.KilnError)}

    gc.collect()
    before = errors()
    gc.disable()
    try:
        kept = fail()
        assert kept() is None and errors() <= before
    finally:
        gc.enable()


@pytest.mark.slow
def test_the_wheel_names_what_it_needs():
    text = pathlib.Path(PACKAGE / "pyproject.toml").read_text()
    assert 'version = "0.1.0"' in text and kiln.__version__ == "0.1.0" and "@" not in text
