"""What the methods of both clients ask, and what they make of the answers.

Each method is a generator. It yields calls, (a method of the light protocol, its message), is sent their answers, and returns the
result. KilnError.
"""

from typing import Any, Callable, Dict, Generator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from kiln import _validate, _wire
from kiln.artifact import Artifact, ArtifactOutput, NearestArtifact, Toolchain
from kiln.errors import InternalError
from kiln.request import CompileRequest
from kiln.v1 import kernel_service_pb2 as pb

_T = TypeVar("_T")
_LOOKUP_KEYS_MAX = 4096
_OWN_KEYS_MAX = 256
Calls = Generator[Tuple[str, Any], Any, _T]


def run(calls: Calls[_T], call: Callable[..., Any], *arguments: Any) -> _T:
    """The method's result. call(method, message, *arguments): the answer."""
    answer = None
    try:
        while True:
            answer = call(*calls.send(answer), *arguments)
    except StopIteration as end:
        result: _T = end.value
        return result


def compiled(request: CompileRequest) -> Calls[Artifact]:
    answer = yield "Compile", _wire.request_message(request)
    return (yield from whole(_wire.artifact(answer)))


def whole(artifact: Artifact) -> Calls[Artifact]:
    """With the contents that were too large to travel in the answer. NotFoundError where one has been evicted."""
    contents = {}
    for name, stage in artifact.stages.items():
        if stage.content is None:
            contents[name] = yield from fetched(stage.digest)
    return artifact.with_contents(contents) if contents else artifact


def fetched(digest: str) -> Calls[bytes]:
    raw = _wire.digest_bytes(digest, "digest")
    answer = yield "Fetch", pb.FetchRequest(digest=raw)
    content: bytes = answer.content
    _wire.check_digest(content, raw)
    return content


def looked_up(keys: Sequence[str]) -> Calls[List[Optional[Artifact]]]:
    raw = [_wire.digest_bytes(key, "a key in keys") for key in _validate.listed(keys, "keys")]
    found: List[Optional[Artifact]] = []
    for start in range(0, len(raw), _LOOKUP_KEYS_MAX):
        answer = yield "Lookup", pb.LookupRequest(keys=raw[start:start + _LOOKUP_KEYS_MAX])
        found += [_wire.artifact(entry, "stored") if entry.found else None for entry in answer.entries]
    return found


def nearest(request: CompileRequest) -> Calls[Optional[NearestArtifact]]:
    answer = yield "Nearest", pb.NearestRequest(request=_wire.request_message(request))
    return _wire.nearest(answer)


def own(keys: Sequence[bytes], tunings: bool = False, job: str = "") -> Calls[Dict[bytes, Dict[str, bytes]]]:
    found: Dict[bytes, Dict[str, bytes]] = {}
    left = [_wire.raw(key, "a key in keys") for key in _validate.listed(keys, "keys")]
    job = _validate.text(job, "job")
    while left:
        answer = yield "GetOwn", pb.GetOwnRequest(keys=left[:_OWN_KEYS_MAX], tunings=tunings, job=job)
        found.update(_wire.user_cache(answer))
        # What found no room in the answer is the end of what was asked for.
        answered = min(len(left), _OWN_KEYS_MAX) - len(answer.unanswered_keys)
        if answered <= 0:
            raise InternalError("the daemon answers none of the keys")
        left = left[answered:]
    return found


def put_own(entries: "Mapping[bytes, Mapping[str, Union[bytes, ArtifactOutput]]]", tunings: bool = False, job: str = "") -> Calls[None]:
    yield "PutOwn", _wire.put_own_message(entries, tunings, job)


def toolchains() -> Calls[List[Toolchain]]:
    return _wire.toolchains((yield "ListToolchains", pb.ListToolchainsRequest()))
