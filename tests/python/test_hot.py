"""Hits in the hot directory, against a real kilnd: no call is made, and the answer is the daemon's."""

import asyncio
import dataclasses
import hashlib
import json
import multiprocessing
import os
import pathlib
import struct
import time
import types

import pytest

import kiln
from kiln import _connection, _hot, _unreported_uses, request as requests
from kiln._unreported_uses import HOT, UnreportedUses
from kiln.sockets import Endpoint
from kiln.v1 import kernel_pb2, kernel_service_pb2
from kiln_triton_worker.warm_kernel import WARM_KERNEL as KERNEL
from places import TOOLCHAIN
from test_connection import ok, serving  # noqa: F401

pytestmark = pytest.mark.one_case

NOTE_USES = 9  # LIGHT_METHOD_NOTE_USES
PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n"


def request(tag, **changes):
    """Each tag is a kernel of its own."""
    return kiln.CompileRequest(**{**dict(source=f"{KERNEL}// {tag}\n", target="cuda:90", toolchain="triton==3.6.0"), **changes})


@pytest.fixture
def client(daemon):
    with kiln.Client(root=str(daemon.root)) as connected:
        yield connected


@pytest.fixture
def calls(monkeypatch):
    """The methods that this process has called since."""
    made = []

    def frame(number, method, message, deadline, encode=_connection.request_frame):
        made.append(method)
        return encode(number, method, message, deadline)

    monkeypatch.setattr(_connection, "request_frame", frame)
    return made


def published(client, asked):
    """Its file, once the daemon has compiled it."""
    key = client.compile(asked).key
    return pathlib.Path(client.socket_path).parent / "hot" / key[:2] / key


def key_here(client, asked):
    """None where this process is not sure of it."""
    try:
        return client._hot.toolchains().key_of(asked)
    except Exception:
        return None


def test_no_source_is_published(client):
    """All users read the hot directory, and a comment is in the source alone."""
    file = published(client, request("", source=PTX + "// the comment of somebody\n", kind="ptx", toolchain=""))
    assert b"the comment" not in b"".join(one.read_bytes() for one in file.parent.glob(f"{file.name}*")) and file.exists()


# --- The same as the daemon's answer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [
    request("plain"),
    request("warps", options={"num_warps": 8, "maxnreg": 128}),
    request("amd", target="hip:gfx942"),
    request("by name", toolchain="", stages=("cubin",), cache="only-if-cached"),
    request("named parameters", parameters=[kiln.Parameter("a", "*fp32", {"tt.divisibility": 16}), kiln.Parameter("n", "i32", {}, 7)]),
    request("earlier stages", stages=("ptx", "cubin", "ttgir")),
    request("earlier stages alone", stages=("llir",)),
    kiln.CompileRequest(PTX, "cuda:90", kind="ptx"),
], ids=lambda asked: asked.source[-20:].strip())
def test_a_hit_has_every_field_of_the_daemons_answer(client, calls, asked):
    client.compile(dataclasses.replace(asked, cache="use"))
    calls.clear()
    found = client.compile(asked)
    assert (found.outcome, found.tier, calls) == ("hit", "hot", [])
    answer = client._asked(asked, None)
    assert answer.tier in ("memory", "disk") and dataclasses.replace(answer, tier="hot") == found
    assert dict(client.compile_many([asked])) == {0: found}

    async def work():
        async with kiln.AsyncClient(root=str(pathlib.Path(client.socket_path).parent.parent)) as connected:
            return await connected.compile(asked)

    assert asyncio.run(work()) == found


OPTIONS = [
    {}, {"num_warps": 4}, {"num_warps": 8}, {"num_stages": 3}, {"num_ctas": 1}, {"maxnreg": 64}, {"maxnreg": None}, {"launch_pdl": False},
    {"launch_cooperative_grid": True}, {"enable_fp_fusion": True}, {"enable_fp_fusion": False}, {"debug": True},
    {"warp_size": 32}, {"default_dot_input_precision": "ieee"}, {"supported_fp8_dtypes": ("fp8e5",)}, {"supported_fp8_dtypes": ["fp8e5"]},
    {"sanitize_overflow": True}, {"sanitize_overflow": False}, {"allowed_dot_input_precisions": ("ieee",)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_key_is_the_daemons(client, options):
    for target in ("cuda:90", "cuda:90:32", "hip:gfx942"):
        if target == "hip:gfx942" and options.keys() & {"maxnreg", "launch_pdl", "num_ctas", "warp_size"}:
            continue
        asked = request("options", target=target, options=options)
        assert key_here(client, asked) == client._asked(asked, None).key, target


def test_a_ptxas_is_in_the_key(client):
    ptxas = next(one for one in client.toolchains() if one.name == "ptxas" and "90" in one.backends[0].architectures)
    path = next(path for path in TOOLCHAIN.rglob("bin/ptxas*") if os.access(path, os.X_OK))
    for named in (ptxas.fingerprint, path):
        asked = request("ptxas", ptxas=named)
        assert key_here(client, asked) == client._asked(asked, None).key


@pytest.mark.parametrize("changes", [
    dict(options={"no_such": 1}), dict(options={"num_warps": 4.0}), dict(options={"num_warps": True}), dict(options={"extern_libs": ()}),
    dict(options={"warp_size": 64}), dict(target="cuda:90:64"), dict(target="cuda"), dict(target="cuda:sm_90"), dict(target=90),
    dict(toolchain="triton==0.1"), dict(toolchain="triton"), dict(kind="c"), dict(kind="ptx"), dict(ptxas="ptxas==0.1"),
    dict(stages="cubin"), dict(stages=("nonsense",)), dict(cache="refresh"), dict(cache="c"), dict(priority="p"), dict(job=5),
    dict(name="x" * 2000), dict(source=5), dict(source="\ud800"), dict(parameters=[5]), dict(options=5), dict(headers={"a.h": ""}),
], ids=str)
def test_doubtful_requests_go_to_the_daemon(client, changes):
    client.compile(request("asked"))
    asked = request("asked", **changes)
    assert client._hot.find(asked) is None
    if changes.get("cache") == "refresh":
        assert client.compile(asked).outcome == "compiled"
        return
    with pytest.raises(kiln.KilnError) as here:
        client.compile(asked)
    with pytest.raises(kiln.KilnError) as there:
        client._asked(asked, None)
    assert (type(here.value), str(here.value)) == (type(there.value), str(there.value))


def test_an_iterator_is_not_used_up(client):
    asked = request("iterator", stages=iter(("ptx", "cubin")), parameters=iter([kiln.Parameter("a", "*fp32")]))
    assert list(client.compile(asked).stages) == ["ptx", "cubin"]


def test_no_request_is_an_error(client):
    with pytest.raises(kiln.InvalidArgumentError, match="a request"):
        client.compile("source")
    with pytest.raises(kiln.InvalidArgumentError, match="timeout"):
        client.compile(request("timeout"), timeout="soon")


# --- What is not trusted or not whole --------------------------------------------------------------------------------


def flip(at):
    def change(path):
        content = bytearray(path.read_bytes())
        content[at] ^= 0xff
        replace(path, bytes(content))

    return change


def replace(path, content, mode=0o444):
    path.unlink()
    path.write_bytes(content)
    path.chmod(mode)


def other_document(old, new):
    return lambda path: replace(path, path.read_bytes().replace(old, new))


@pytest.mark.parametrize("change", [
    flip(0), flip(8), flip(16), flip(40), flip(64), flip(72), flip(90), flip(120), flip(150), flip(-1),
    lambda path: replace(path, path.read_bytes()[:-1]), lambda path: replace(path, path.read_bytes()[:50]), lambda path: replace(path, b""),
    other_document(b'"num_ctas"', b'"xum_ctas"'), other_document(b'"format":1', b'"format":2'), other_document(b'{"format"', b'["format"'),
    lambda path: path.unlink(), lambda path: path.chmod(0o464), lambda path: path.chmod(0o446), lambda path: os.chown(path, 12345, -1),
    lambda path: (path.rename(path.with_suffix(".moved")), path.symlink_to(path.with_suffix(".moved"))),
    lambda path: (path.unlink(), os.mkfifo(path)), lambda path: (path.unlink(), path.mkdir()),
    lambda path: path.parent.parent.chmod(0o777), lambda path: os.chown(path.parent.parent, 12345, -1),
    lambda path: replace(path.parent.parent / "toolchains", b"\x0a\xff"), lambda path: (path.parent.parent / "toolchains").unlink(),
    lambda path: (path.parent.parent / "toolchains").chmod(0o666),
], ids=range(28))
def test_a_file_that_is_damaged_or_not_trusted_is_a_miss(other_daemon, change):
    asked = request("damaged")
    with other_daemon, kiln.Client(root=str(other_daemon.root)) as client:
        path = published(client, asked)
        assert client.compile(asked).tier == "hot"
        change(path)
        again = client.compile(asked)
        assert (again.outcome, again.tier) in (("hit", "memory"), ("hit", "disk"))


def test_earlier_stages_of_another_compile_are_not_taken(client):
    asked, other = request("stages", stages=("ttgir", "cubin")), request("other stages", options={"num_warps": 1})
    stages, others = (pathlib.Path(f"{published(client, one)}.stages") for one in (asked, other))
    assert client._hot.find(asked).tier == "hot"
    key = stages.read_bytes()[32:64]
    replace(stages, b"".join((others.read_bytes()[:32], key, others.read_bytes()[64:])))
    assert client._hot.find(asked) is None and client.compile(asked).tier != "hot"


# --- Own entries -----------------------------------------------------------------------------------------------------


def own_file(client, key):
    """The file that the daemon has published of that entry."""
    digits = (hashlib.sha256(b"kiln-own-1\n" + struct.pack("<I", os.geteuid()) + key).digest()[:24] + b"KILN-OWN").hex()
    return pathlib.Path(client.socket_path).parent / "hot" / digits[:2] / digits


def test_an_own_entry_is_read_from_its_file(client):
    artifact = client.compile(request("own", stages=("ptx", "cubin")))
    outputs = {f"k.{name}": kiln.ArtifactOutput(artifact.key, name, stage.digest) for name, stage in artifact.stages.items()}
    client.put_own({b"of files": {"b": b"second", **outputs, "a": b""}})
    found = client._hot.own(b"of files")
    assert found == client.get_own([b"of files"])[b"of files"] and list(found) == ["b", *outputs, "a"]
    client.put_own({b"of files": {"b": b"third"}})
    assert client._hot.own(b"of files") == {"b": b"third"} and client._hot.own(b"of others") is None
    client.put_own({b"of files": outputs})
    assert client._hot.own(b"of files") is None and list(client.get_own([b"of files"])[b"of files"]) == list(outputs)


def test_an_own_entry_that_is_not_as_it_was_put_is_asked_for(client):
    artifact = client.compile(request("damaged", stages=("ptx",)))
    client.put_own({b"damaged": {"a": b"content", "k.ptx": kiln.ArtifactOutput(artifact.key, "ptx", artifact.stages["ptx"].digest)}})
    path = own_file(client, b"damaged")
    whole = path.read_bytes()
    for damaged in (whole.replace(b"content", b"connect"), whole.replace(b"KILNOWN", b"KILN___"), whole[:-1], b""):
        replace(path, damaged)
        assert client._hot.own(b"damaged") is None
    replace(path, whole)
    path.chmod(0o420)
    assert client._hot.own(b"damaged") is None
    path.chmod(0o400)
    assert client._hot.own(b"damaged")["a"] == b"content"


def test_an_own_entry_goes_with_its_artifact(daemon, client):
    artifact = client.compile(request("gone with it", stages=("ptx",)))
    client.put_own({b"evicted": {"a": b"content", "k.ptx": kiln.ArtifactOutput(artifact.key, "ptx", artifact.stages["ptx"].digest)}})
    assert client._hot.own(b"evicted")
    assert daemon.kiln("evict", artifact.key).code == 0
    assert client._hot.own(b"evicted") is None and client.get_own([b"evicted"]) == {}


def test_a_file_of_the_servers_user_is_trusted(client):
    asked = request("server")
    path = published(client, asked)
    os.chown(path, 12345, -1)
    reader = _hot.HotReader(Endpoint(client.socket_path, server_uid=12345))
    assert reader.find(asked).tier == "hot" and client._hot.find(asked) is None


# --- The daemon comes and goes ---------------------------------------------------------------------------------------


def test_a_hit_needs_no_daemon(other_daemon):
    asked = request("alone")
    with other_daemon:
        client = kiln.Client(root=str(other_daemon.root))
        client.compile(asked)
        other_daemon.stop_answering()
        assert client.compile(asked, timeout=1.0).tier == "hot"
        other_daemon.go_on()
        other_daemon.kill()
        assert client.compile(asked).tier == "hot" and [one.tier for _, one in client.compile_many([asked] * 2)] == ["hot"] * 2
        with pytest.raises(kiln.UnavailableError):
            client.compile(request("not there"), timeout=0.2)


def test_a_client_that_is_made_while_the_daemon_restarts_finds_what_is_published(other_daemon):
    asked = request("before the daemon")
    root = str(other_daemon.root)
    with other_daemon:
        with kiln.Client(root=root) as client:
            client.compile(asked)
        other_daemon.kill()
        late = kiln.Client(root=root)
        assert late.compile(asked).tier == "hot"
        with pytest.raises(kiln.UnavailableError):
            late.compile(request("not there before the daemon"), timeout=0.2)

        async def later():
            async with kiln.AsyncClient(root=root) as client:
                assert (await client.compile(asked)).tier == "hot"
                with pytest.raises(kiln.UnavailableError):
                    await client.compile(request("not there before the daemon"))
            with pytest.raises(kiln.UnavailableError):
                await kiln.AsyncClient(root=root, needs_daemon=True).connect()

        asyncio.run(later())
        with pytest.raises(kiln.UnavailableError):
            kiln.Client(root=root, needs_daemon=True)
    with other_daemon:
        assert late.compile(request("not there before the daemon")).outcome == "compiled"


def test_misses_compile_while_hits_are_handed_out(daemon):
    there, missing = request("handed out"), request("missing meanwhile")
    with kiln.Client(root=str(daemon.root)) as client, kiln.Client(root=str(daemon.root)) as other:
        published(client, there)
        ends = time.monotonic() + 30

        def given():
            yield missing
            while not is_stored() and time.monotonic() < ends:
                yield there

        def is_stored():
            try:
                return other.compile(dataclasses.replace(missing, cache="only-if-cached", stages=["ptx"]))
            except kiln.NotFoundError:
                return None

        answers = dict(client.compile_many(given()))
        assert time.monotonic() < ends and answers.pop(0).outcome == "compiled" and {one.tier for one in answers.values()} <= {"hot"}


def test_toolchains_that_change_are_seen(other_daemon):
    asked = request("changed")
    with other_daemon, kiln.Client(root=str(other_daemon.root)) as client:
        path = published(client, asked)
        assert client.compile(asked).tier == "hot"
        toolchains = path.parent.parent / "toolchains"
        before = kernel_service_pb2.ListToolchainsResponse.FromString(toolchains.read_bytes())
        after = kernel_service_pb2.ListToolchainsResponse(toolchains=[one for one in before.toolchains if one.name != "triton"])
        replace(toolchains, after.SerializeToString())
        assert client._hot.find(asked) is None
        replace(toolchains, before.SerializeToString())
        assert client._hot.find(asked).tier == "hot"
        next(one for one in before.toolchains if one.name == "triton").fingerprint = b"x" * 32
        replace(toolchains, before.SerializeToString())
        assert client._hot.find(asked) is None and client.compile(asked).tier != "hot"


def uses(daemon):
    return json.loads(daemon.kiln("stats", "--json").out)["hot_uses"]


def test_uses_are_told_with_the_next_call_or_at_the_end(daemon, client):
    first, second = request("told"), request("told at the end")
    client.compile(first), client.compile(second)
    before = uses(daemon)
    for _ in range(5):
        client.compile(first)
    client.lookup([])
    client.toolchains()
    client.compile(second)
    client.close()
    assert uses(daemon) == before + 2
    client.toolchains()
    assert uses(daemon) == before + 2


def test_the_command_reads_there_before_it_asks(daemon, tmp_path):
    source = tmp_path / "kernel.ptx"
    source.write_text(f"{PTX}// by the command\n")
    compiles = ("compile", source, "--kind", "ptx", "--target", "cuda:90", "-o", tmp_path / "out")
    first, stats = daemon.kiln(*compiles), json.loads(daemon.kiln("stats", "--json").out)
    content = (tmp_path / "out" / "kernel.cubin").read_bytes()
    second, later = daemon.kiln(*compiles), json.loads(daemon.kiln("stats", "--json").out)
    assert (first.code, second.code) == (0, 0) and (tmp_path / "out" / "kernel.cubin").read_bytes() == content
    assert (later["requests"], later["hot_uses"]) == (stats["requests"], stats["hot_uses"] + 1)


def told(client):
    return kernel_service_pb2.NoteUsesRequest.FromString(client._hot.uses.take()).keys


def test_a_client_that_only_finds_tells(daemon, client, monkeypatch):
    asked = request("only found")
    client.compile(asked)
    client.toolchains()
    before = uses(daemon)
    client.compile(asked)
    assert uses(daemon) == before
    monkeypatch.setattr(_unreported_uses, "_DUE_COUNT", 1)
    client.compile(asked)
    assert uses(daemon) == before + 1

    async def work():
        async with kiln.AsyncClient(root=str(daemon.root)) as connected:
            await connected.compile(asked)
            return uses(daemon)  # while it is connected

    assert asyncio.run(work()) == before + 2


def test_a_child_tells_nothing_of_its_parents_uses(daemon, client):
    client.compile(request("forked"))
    assert client.compile(request("forked")).tier == "hot"
    child = os.fork()
    if child == 0:
        os._exit(len(told(client)) or (client.compile(request("forked")).tier != "hot") or len(told(client)) - 1)
    assert os.waitpid(child, 0)[1] == 0 and len(told(client)) == 1


# --- Uses, told to a daemon that only listens -----------------------------------------------------------------------


@pytest.fixture
def now(monkeypatch):
    """The time, which stands still until a test moves it. A busy machine has time to answer."""
    clock = types.SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(_unreported_uses, "_BUDGET_S", 10.0)
    monkeypatch.setattr(_unreported_uses, "time", types.SimpleNamespace(monotonic=lambda: clock.seconds))
    return clock


@pytest.fixture
def listening(serving):  # noqa: F811
    """A daemon that takes what it is listening."""
    return serving(lambda number, method: ok(number))[1]


def key(number):
    return number.to_bytes(32, "little")


def test_hits_are_added_up_by_place_and_job():
    uses = UnreportedUses(Endpoint(), lambda: None)
    for place, job, seconds in ((HOT, "train", 1.5), (HOT, "train", 0.25), (HOT, "ä" * 100, float("nan")), (2, "", 1e9)):
        uses.add_hit(place, job, seconds, 7)
    hits = kernel_service_pb2.NoteUsesRequest.FromString(uses.take()).hits
    assert [(one.place, one.job, one.count, one.saved_micros, one.bytes) for one in hits] == [
        (kernel_service_pb2.ToldHits.HOT, "train", 2, 1_750_000, 14), (1, "ä" * 100, 1, 0, 7), (kernel_service_pb2.ToldHits.OWN, "", 1, 300_000_000, 7)]
    for number in range(1000):
        uses.add_hit(HOT, str(number), 0, 0)
    assert len(kernel_service_pb2.NoteUsesRequest.FromString(uses.take()).hits) == 64 and uses.take() == b""


@pytest.mark.parametrize("add,count", [
    (lambda uses, number: uses.add(key(number)), 256), (lambda uses, number: uses.add_hit(HOT, str(number), 0.0, 1), 64),
    (lambda uses, number: uses.add_hit(HOT, "one", 0.0, 1), 4096)], ids=["keys", "jobs", "hits of one job"])
def test_many_are_told_at_once(listening, now, add, count):
    uses = UnreportedUses(Endpoint(listening.path))
    for number in range(count - 1):
        add(uses, number)
    uses.add(key(0))
    assert listening.seen == []
    add(uses, count - 1)
    uses.add(key(0))
    assert listening.seen == [(1, NOTE_USES)]


def test_the_next_hit_tells_of_one_that_has_waited(listening, now):
    uses = UnreportedUses(Endpoint(listening.path))
    for number in range(3):
        uses.add(key(number))
        now.seconds += 0.9
    assert listening.seen == []
    now.seconds += 0.2
    uses.add(key(3))
    assert listening.seen == [(1, NOTE_USES)] and uses.take() == b""
    now.seconds += 100
    uses.add(key(4))
    assert len(listening.seen) == 1  # it is the first again


def test_a_daemon_that_is_away_is_left_alone_for_a_while(serving, now, tmp_path, monkeypatch):  # noqa: F811
    sought, find = [], Endpoint.find
    monkeypatch.setattr(Endpoint, "find", lambda endpoint: sought.append(endpoint) or find(endpoint))
    uses = UnreportedUses(Endpoint(tmp_path / "kilnd.sock"))
    uses.add(key(0))
    now.seconds += 2
    for number in range(300):
        uses.add(key(number))
    assert len(sought) == 1
    _, daemon = serving(lambda number, method: ok(number))
    uses.add(key(300))
    assert daemon.seen == []
    now.seconds += 30
    uses.add(key(301))
    assert daemon.seen == [(1, NOTE_USES)] and uses.take() == b""  # the earlier ones, too


def test_a_daemon_that_does_not_answer_delays_one_hit(serving, now, monkeypatch):  # noqa: F811
    monkeypatch.setattr(_unreported_uses, "_BUDGET_S", 0.02)
    _, daemon = serving(lambda number, method: b"")
    uses = UnreportedUses(Endpoint(daemon.path))
    uses.add(key(0))
    for _ in range(3):
        now.seconds += 5
        began = time.monotonic()
        uses.add(key(1))
        spent_s = time.monotonic() - began
        assert spent_s < 1.0
    assert len(daemon.seen) == 1


@pytest.mark.parametrize("end", ["at the end of multiprocessing's", "after a while"])
def test_children_tell(listening, end, monkeypatch):
    """They end without atexit."""
    monkeypatch.setattr(_unreported_uses, "_BUDGET_S", 10.0)
    monkeypatch.setattr(_unreported_uses, "_END_BUDGET_S", 10.0)
    uses = UnreportedUses(Endpoint(listening.path))
    uses.add(key(0))  # the parent's

    def hit():
        uses.add(key(1))
        if end == "after a while":
            monkeypatch.setattr(_unreported_uses, "time", types.SimpleNamespace(monotonic=lambda: time.monotonic() + 3))
            uses.add(key(1))
            os._exit(0)

    child = multiprocessing.get_context("fork").Process(target=hit)
    child.start()
    child.join()
    assert child.exitcode == 0 and listening.seen == [(1, NOTE_USES)]
    assert list(kernel_service_pb2.NoteUsesRequest.FromString(uses.take()).keys) == [key(0)]


# --- Parts -----------------------------------------------------------------------------------------------------------


def test_numbers_of_words_are_those_of_the_contract():
    words = {f"SOURCE_KIND_{'CUDA_CXX' if word == 'cuda' else word.upper()}": number for word, number in requests.KINDS.items()}
    assert {**words, "SOURCE_KIND_UNSPECIFIED": 0} == dict(kernel_pb2.SourceKind.items())
    for prefix, known, enum in (("CACHE_POLICY_", requests.CACHE_POLICIES, kernel_service_pb2.CachePolicy),
                                ("PRIORITY_", requests.PRIORITIES, kernel_service_pb2.Priority)):
        assert {prefix + word.upper().replace("-", "_"): number for word, number in known.items()} | {f"{prefix}UNSPECIFIED": 0} == dict(enum.items())
