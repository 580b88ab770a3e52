"""What a Python program passes to kiln.Client and kiln.AsyncClient by mistake is an InvalidArgumentError that names the field, whichever
function it is passed to, and is refused before anything is sent."""

import asyncio
import pathlib
import re

import pytest

import kiln
from kiln._connection import Connection
from kiln.aio import _Stream
from kiln._plugin.settings import Settings
from kiln_triton_worker.warm_kernel import WARM_KERNEL as KERNEL

pytestmark = pytest.mark.shared_daemon

SURROGATE = "a\ud800b"
HALF = "has '.ud800' at position 1, half of a surrogate pair"
NAN = float("nan")
ITSELF = []
ITSELF.append(ITSELF)


class Integer:
    """As numpy's: it can be used as an int, and is none."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value

    def __radd__(self, other):
        return other + self.value

    def __repr__(self):
        return f"np.int64({self.value})"


def label(value):
    """Of a test case."""
    try:
        return ascii(value)[:40]
    except ValueError:  # thousands of digits
        return "long"


def request(**changes):
    fields = dict(source=KERNEL, target="cuda:90", toolchain="triton==3.6.0", options={"num_warps": 4})
    return kiln.CompileRequest(**{**fields, **changes})


def parameter(name="x", kind="i32", attributes=None, constant=None):
    return dict(parameters=[kiln.Parameter(name, kind, {} if attributes is None else attributes, constant)])


async def taken(answers):
    return [answer async for answer in answers]


@pytest.fixture
def refused(daemon, monkeypatch):
    """The errors of a call, made through both clients."""

    def of(call):
        with kiln.Client(root=str(daemon.root), connect_timeout=5, answer_timeout=20) as client:
            client.toolchains()  # it is connected
            monkeypatch.setattr(Connection, "start", lambda *_: pytest.fail("something was sent"))
            with pytest.raises(kiln.InvalidArgumentError) as blocking:
                answer = call(client)
                raise next(iter(answer))[1] if not isinstance(answer, (kiln.Artifact, kiln.NearestArtifact)) else AssertionError(answer)
            monkeypatch.undo()
        with pytest.raises(kiln.InvalidArgumentError) as asynchronous:
            asyncio.run(in_loop(call))
        return str(blocking.value), str(asynchronous.value)

    async def in_loop(call):
        async with kiln.AsyncClient(root=str(daemon.root), connect_timeout=5, answer_timeout=20) as client:
            monkeypatch.setattr(_Stream, "_start", lambda *_: pytest.fail("something was sent"))
            try:
                answer = call(client)
                if hasattr(answer, "__aiter__"):
                    raise (await taken(answer))[0][1]
                await answer
            finally:
                monkeypatch.undo()

    return of


# --- Requests --------------------------------------------------------------------------------------------------------

REQUESTS = (
    (dict(source=5), "source: 5 is of type int"),
    (dict(source=None), "source: None is of type NoneType, where the text, a str or bytes, is meant"),
    (dict(source=SURROGATE), f"source {HALF}"),
    (dict(source=pathlib.Path("k.ttir")), "source: PosixPath.'k.ttir'. .* read_text"),
    (dict(target=90), "target: 90 is of type int, where a str such as 'cuda:90' is meant"),
    (dict(target=b"cuda:90"), "target: b'cuda:90' is of type bytes"),
    (dict(target="a\ud800:90"), "target has '.ud800'"),
    (dict(target="hip:gfx942:" + "9" * 30), ".* is not a target"),
    (dict(kind=["ttir"]), "kind: .* is of type list"),
    (dict(kind=SURROGATE), f"kind {HALF}"),
    (dict(name=b"name"), "name: b'name' is of type bytes"),
    (dict(name=SURROGATE), f"name {HALF}"),
    (dict(options=["num_warps"]), "options: .* is of type list, where a mapping such as {'num_warps': 8} is meant"),
    (dict(options={8: "num_warps"}), "a name in options: 8 is of type int"),
    (dict(options={b"num_warps": 8}), "a name in options: b'num_warps' is of type bytes"),
    (dict(options={SURROGATE: 8}), f"a name in options {HALF}"),
    (dict(options={"num_warps": 2**63}), "option 'num_warps' is 9223372036854775808, which does not fit 64 bits"),
    (dict(options={"num_warps": -2**63 - 1}), "option 'num_warps' is .* does not fit 64 bits"),
    (dict(options={"num_warps": 10**5000}), "option 'num_warps' is .* does not fit 64 bits"),
    (dict(options={"num_warps": NAN}), "option 'num_warps' is nan; it must be finite"),
    (dict(options={"num_warps": float("-inf")}), "option 'num_warps' is -inf; it must be finite"),
    (dict(options={"num_warps": Integer(4)}), r"option 'num_warps' is np.int64\(4\), of type Integer; it must be a bool, int"),
    (dict(options={"std": b"c++17"}), "option 'std' is b'c..17', of type bytes; it must be a bool, int, float, str"),
    (dict(options={"std": SURROGATE}), f"option 'std' {HALF}"),
    (dict(options={"x": (1, (SURROGATE,))}), f"option 'x' {HALF}"),
    (dict(options={"x": [1, 2**64]}), "option 'x' is .* does not fit 64 bits"),
    (dict(options={"x": ITSELF}), "option 'x': tuples are nested deeper than 8 levels"),
    (parameter(name=5), "the name of a parameter: 5 is of type int"),
    (parameter(name=SURROGATE), f"the name of a parameter {HALF}"),
    (parameter(kind=b"i32"), "the type of parameter 'x': b'i32' is of type bytes"),
    (parameter(attributes=5), "the attributes of parameter 'x': 5 is of type int, where a mapping"),
    (parameter(attributes={5: 1}), "a name in the attributes of parameter 'x': 5"),
    (parameter(attributes={"a": 2**64}), "attribute 'a' of parameter 'x' is 18446744073709551616, which does not fit 64 bits"),
    (parameter(attributes={"a": 1.5}), "attribute 'a' of parameter 'x': 1.5 is of type float, where an int is meant"),
    (parameter(attributes={"a": True}), "attribute 'a' of parameter 'x': True is of type bool, where an int is meant"),
    (parameter(attributes={"a": Integer(1)}), "attribute 'a' of parameter 'x': .* where an int is meant"),
    (parameter(constant=2**64), "the constant of parameter 'x' is .* does not fit 64 bits"),
    (parameter(constant=NAN), "the constant of parameter 'x' is nan"),
    (parameter(constant=SURROGATE), f"the constant of parameter 'x' {HALF}"),
    (dict(parameters=["x"]), "a parameter in parameters: 'x' is of type str, where a kiln.Parameter is meant"),
    (dict(parameters=5), "parameters: 5 is of type int"),
    (dict(headers=["a.h"]), "headers: .* is of type list, where a mapping"),
    (dict(headers={b"a.h": ""}), "a name in headers: b'a.h' is of type bytes"),
    (dict(headers={SURROGATE: ""}), f"a name in headers {HALF}"),
    (dict(headers={"a.h": SURROGATE}), f"header 'a.h' {HALF}"),
    (dict(headers={"a.h": pathlib.Path("a.h")}), "header 'a.h': PosixPath.'a.h'. is of type PosixPath, where the text itself"),
    (dict(toolchain=None), "toolchain: None is of type NoneType"),
    (dict(toolchain=SURROGATE), f"toolchain {HALF}"),
    (dict(ptxas=b"ptxas==13.0.88"), "ptxas: b'ptxas==13.0.88' is of type bytes"),
    (dict(ptxas=SURROGATE), f"ptxas {HALF}"),
    (dict(stages="cubin"), "stages: 'cubin' is of type str"),
    (dict(stages=5), "stages: 5 is of type int"),
    (dict(stages=[5]), "a stage in stages: 5 is of type int"),
    (dict(stages=[SURROGATE]), f"a stage in stages {HALF}"),
    (dict(cache=5), "cache: 5 is of type int"),
    (dict(priority=b"warm"), "priority: b'warm' is of type bytes"),
    (dict(job=SURROGATE), f"job {HALF}"),
)


@pytest.mark.parametrize("changes,words", REQUESTS, ids=label)
def test_a_value_that_a_request_cannot_hold_is_named(refused, changes, words):
    asked = request(**changes)
    for ask in (lambda client: client.compile(asked), lambda client: client.compile_many([asked]), lambda client: client.nearest(asked)):
        for said in refused(ask):
            assert re.search(words, said), said


def test_tuples_within_tuples_as_deep_as_the_daemon_takes_them(daemon):
    """Where it refuses the option itself, the value has come through."""
    deep = 1
    for _ in range(7):
        deep = (deep,)
    with kiln.Client(root=str(daemon.root)) as client, pytest.raises(kiln.InvalidArgumentError, match="does not know|it knows"):
        client.compile(request(options={"no_such": deep}))


@pytest.mark.parametrize("given", [5, None, "kernels", b"kernels", request()], ids=lambda value: type(value).__name__)
def test_many_that_are_no_list_are_named(refused, given):
    for said in refused(lambda client: client.compile_many(given)):
        assert said.startswith("requests: "), said


# --- Timeouts and counts ---------------------------------------------------------------------------------------------

TIMED = {
    "compile": lambda client, **more: client.compile(request(), **more),
    "compile_many": lambda client, **more: client.compile_many([request()], **more),
    "lookup": lambda client, **more: client.lookup(["0" * 64], **more),
    "nearest": lambda client, **more: client.nearest(request(), **more),
    "fetch": lambda client, **more: client.fetch("0" * 64, **more),
    "get_own": lambda client, **more: client.get_own([b"key"], **more),
    "put_own": lambda client, **more: client.put_own({b"key": {"name": b""}}, **more),
    "toolchains": lambda client, **more: client.toolchains(**more),
}


@pytest.mark.parametrize("function", TIMED)
@pytest.mark.parametrize("timeout", ["5", b"5", -1, -0.001, NAN, float("inf"), True, Integer(5)], ids=label)
def test_an_invalid_timeout_is_named(refused, function, timeout):
    for said in refused(lambda client: TIMED[function](client, timeout=timeout)):
        assert said.startswith("timeout is ") and "must be a number of seconds from 0 on, or None" in said, said


@pytest.mark.parametrize("timeout", [10**10, 1e300, 10**400])
def test_a_huge_timeout_means_no_timeout(daemon, timeout):
    with kiln.Client(root=str(daemon.root), connect_timeout=5, answer_timeout=20) as client:
        assert client.lookup(["0" * 64], timeout=timeout) == [None]


@pytest.mark.parametrize("in_flight", [0, -1, 2.5, None, True, "5", NAN, Integer(5)], ids=label)
def test_nothing_in_flight_is_refused(refused, in_flight):
    for said in refused(lambda client: client.compile_many([request()], in_flight=in_flight)):
        assert said.startswith("in_flight is ") and "a whole number from 1 on" in said, said


@pytest.mark.parametrize("attempts", [0, -1, "5", True, 2.5, None, Integer(5)], ids=label)
def test_a_call_is_attempted_once_at_least(daemon, attempts):
    with pytest.raises(kiln.InvalidArgumentError, match="attempts is"):
        kiln.Client(root=str(daemon.root), attempts=attempts)


# --- Keys and digests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["0" * 63, b"0" * 64, 5, None, SURROGATE, "00 " * 20 + "0000", "g" * 64, "\u0663" * 64], ids=label)
def test_a_malformed_digest_is_named(refused, given):
    for said in refused(lambda client: client.fetch(given)):
        assert said.startswith("digest: ") and said.endswith("is not 64 hex digits"), said
    for said in refused(lambda client: client.lookup([given])):
        assert said.startswith("a key in keys: ") and said.endswith("is not 64 hex digits"), said


@pytest.mark.parametrize("given", ["0" * 64, b"key", 5, None], ids=label)
def test_keys_are_a_list_of_them(refused, given):
    for ask in (lambda client: client.lookup(given), lambda client: client.get_own(given)):
        assert all(said.startswith("keys: ") for said in refused(ask))


@pytest.mark.parametrize("given", ["key", 5, None], ids=label)
def test_own_keys_are_bytes(refused, given):
    for said in refused(lambda client: client.get_own([given])):
        assert said.startswith("a key in keys: ") and "where bytes is meant" in said, said


@pytest.mark.parametrize("entries,words", [
    ([b"key"], "entries: "), (5, "entries: 5"), ({"key": {"name": b""}}, "a key in entries: 'key'"),
    ({b"key": b"content"}, "the files of b'key': "), ({b"key": {"name": "content"}}, "the content of 'name': 'content' is of type str"),
    ({b"key": {b"name": b"content"}}, "a name in the files of b'key': "), ({b"key": {SURROGATE: b""}}, "a name in the files of b'key' has"),
    ({b"key": {"name": kiln.ArtifactOutput("x", "cubin", "0" * 64)}}, "the content of 'name': key: 'x' is not 64 hex digits"),
    ({b"key": {"name": kiln.ArtifactOutput("0" * 64, 5, "0" * 64)}}, "the content of 'name': stage: 5"),
    ({b"key": {"name": kiln.ArtifactOutput("0" * 64, SURROGATE, "0" * 64)}}, "the content of 'name': stage has"),
    ({b"key": {"name": kiln.ArtifactOutput("0" * 64, "cubin", b"")}}, "the content of 'name': digest: b'' is not"),
], ids=label)
def test_own_entries_are_bytes_by_name_by_key(refused, entries, words):
    for said in refused(lambda client: client.put_own(entries)):
        assert said.startswith(words), said


# --- Clients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kiln.Client, kiln.AsyncClient])
@pytest.mark.parametrize("name,given", [
    *((name, given) for name in ("connect_timeout", "answer_timeout")
      for given in (-1, 0, "1", None, NAN, float("inf"), True, Integer(1), 10**10, 10**400)),
    *(("server_uid", given) for given in ("x", -1, True, 0.5, NAN, Integer(0), 2**32 - 1, 2**70)),
    *((name, given) for name in ("socket", "root") for given in (5, b"/run/kilnd.sock", True, "a\0b", SURROGATE, pathlib.Path(SURROGATE))),
], ids=label)
def test_a_client_that_could_not_work_is_not_made(kind, name, given):
    with pytest.raises(kiln.InvalidArgumentError, match=f"^{name}(:| is| has) "):
        kind(**{name: given})


@pytest.mark.parametrize("name,given,words", [
    ("KILN_TIMEOUT", "inf", "is not a number of seconds"), ("KILN_TIMEOUT", "nan", "is not a number of seconds"),
    ("KILN_SERVER_UID", "4294967295", "is not a uid"), ("KILN_SERVER_UID", "9" * 5000, "is not a uid"), ("KILN_SERVER_UID", "-1", "is not a uid"), ("KILN_TUNINGS", "none", "is not one of use, renew, off")],
                         ids=label)
def test_a_variable_that_no_client_could_work_with_counts_as_unset(caplog, name, given, words):
    assert Settings.of({name: given}) == Settings()
    assert f"{name}={given} {words}" in caplog.text
