"""Converts between Kiln's types and protobuf's messages. The only module that imports protobuf."""

import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, List, Optional, Sequence, Tuple, TypeVar

from kiln import _validate, _ptxas
from kiln._signals import suppressed
from kiln.artifact import (Artifact, ArtifactOutput, Backend, Difference, KernelMetadata, KernelParameter, NearestArtifact,
                           OptionDeclaration, Provenance, Stage, TensorDescriptor, Toolchain)
from kiln.errors import DataLossError, DiagnosticNote, Diagnostics, InvalidArgumentError, KilnError, ResourceExhaustedError, error_for
from kiln.key import Parameter
from kiln.request import CACHE_POLICIES, KINDS, PRIORITIES, CompileRequest
from kiln.v1 import kernel_pb2, kernel_service_pb2

_T = TypeVar("_T")
_SOURCE_BYTES_MAX = 16 << 20
_OPTION_DEPTH_MAX = 8  # the daemon's limit, which says the same
_WARP_SIZE_DIGITS_MAX = 9
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
# gRPC's codes by their numbers.
_CODES = ("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
          "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
          "UNAUTHENTICATED")
_DETAIL_URL = "type.googleapis.com/kiln.v1."
_OUTCOMES = dict(enumerate(("", "hit", "joined", "compiled")))
_TIERS = dict(enumerate(("", "memory", "disk")))
# The fields of KernelMetadata that the message has alike.
_ALIKE = tuple(one.name for one in fields(KernelMetadata) if one.type in (int, bool, str) and one.name not in ("backend", "architecture"))


# --- To messages -----------------------------------------------------------------------------------------------------


def request_message(request: CompileRequest) -> Any:
    """The message of a request. InvalidArgumentError; ResourceExhaustedError if it is too long."""
    if not isinstance(request, CompileRequest):
        raise _validate.mistaken("a request", request, "a kiln.CompileRequest")
    message = kernel_service_pb2.CompileRequest(
        target=_target(request.target),
        toolchain=_validate.text(request.toolchain, "toolchain", "such as 'triton==3.6.0'"),
        stages=[_validate.text(stage, "a stage in stages", "such as 'cubin'") for stage in _validate.listed(request.stages, "stages")],
        cache_policy=_choose(CACHE_POLICIES, request.cache, "cache"),
        priority=_choose(PRIORITIES, request.priority, "priority"),
        job=_validate.text(request.job, "job"),
        ptxas=_ptxas.selector(request.ptxas))
    message.source.kind = _choose(KINDS, request.kind, "kind")
    source = _content(request.source, "source")
    message.source.text = source
    message.source.name = _validate.text(request.name, "name")
    for name, value in _items(request.options, "options", "{'num_warps': 8}"):
        if value is not None:
            _set_value(message.options[name], value, f"option {_validate.shown(name)}")
    for parameter in _validate.listed(request.parameters, "parameters"):
        _add_parameter(message.specialization.parameters.add(), parameter)
    for name, text in _items(request.headers, "headers", "{'tile.h': 'its text'}"):
        message.headers.add(name=name, text=_content(text, f"header {_validate.shown(name)}"))
    _check_size(message, len(source))
    return message


def _content(given: "str | bytes", what: str) -> bytes:
    # Refuses a path: its text would be compiled as source.
    if isinstance(given, os.PathLike):
        raise _validate.mistaken(what, given, "the text itself, such as the path's read_text(),")
    if not isinstance(given, (str, bytes, bytearray, memoryview)):
        raise _validate.mistaken(what, given, "the text, a str or bytes,")
    return _validate.utf8(given, what) if isinstance(given, str) else bytes(given)


def _items(given: "Mapping[str, _T]", what: str, example: str) -> "Iterable[Tuple[str, _T]]":
    if not isinstance(given, Mapping):
        raise _validate.mistaken(what, given, f"a mapping such as {example}")
    for name in given:
        _validate.text(name, f"a name in {what}")
    return given.items()


def _check_size(message: Any, source_bytes: int) -> None:
    """Checks the daemon's limit, for a clear error. A request's limit is a mebibyte higher."""
    size = source_bytes + sum(len(header.text) for header in message.headers)
    if size > _SOURCE_BYTES_MAX:
        what = "source and headers are" if message.headers else "the source is"
        raise ResourceExhaustedError(f"{what} {size} bytes long; at most {_SOURCE_BYTES_MAX} (16 MiB) are accepted")


def _choose(known: Mapping[str, _T], word: str, what: str) -> _T:
    if _validate.text(word, what) not in known:
        raise InvalidArgumentError(f"{what} {word!r} is not known; there are {', '.join(known)}")
    return known[word]


def _target(text: str) -> Any:
    backend, _, rest = _validate.text(text, "target", "such as 'cuda:90'").partition(":")
    architecture, _, warp_size = rest.partition(":")
    has_size = warp_size.isdecimal() and len(warp_size) <= _WARP_SIZE_DIGITS_MAX
    if not backend or not architecture or (warp_size and not has_size):
        raise InvalidArgumentError(f"{text!r} is not a target; write it as cuda:90, hip:gfx942 or hip:gfx942:64")
    return kernel_pb2.Target(backend=backend, architecture=architecture, warp_size=int(warp_size or 0))


def _add_parameter(message: Any, parameter: Parameter) -> None:
    if not isinstance(parameter, Parameter):
        raise _validate.mistaken("a parameter in parameters", parameter, "a kiln.Parameter")
    message.name = _validate.text(parameter.name, "the name of a parameter")
    what = f"parameter {_validate.shown(parameter.name)}"
    message.type = _validate.text(parameter.type, f"the type of {what}", "such as '*fp32'")
    for name, value in _items(parameter.attributes, f"the attributes of {what}", "{'tt.divisibility': 16}"):
        message.attributes[name] = _validate.integer(value, f"attribute {_validate.shown(name)} of {what}")
    if parameter.constant is not None:
        _set_value(message.constant, parameter.constant, f"the constant of {what}")


def _set_value(message: Any, value: Any, what: str, depth: int = 0) -> None:
    if depth > _OPTION_DEPTH_MAX:
        raise InvalidArgumentError(f"{what}: tuples are nested deeper than {_OPTION_DEPTH_MAX} levels")
    if isinstance(value, bool):  # before int, which it is too
        message.bool_value = value
    elif isinstance(value, int):
        message.int_value = _validate.integer(value, what)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidArgumentError(f"{what} is {value}; it must be finite")
        message.double_value = value
    elif isinstance(value, str):
        message.string_value = _validate.text(value, what)
    elif isinstance(value, (tuple, list)):
        message.tuple_value.SetInParent()
        for item in value:
            _set_value(message.tuple_value.items.add(), item, what, depth + 1)
    else:
        raise InvalidArgumentError(f"{what} is {_validate.shown(value)}, of type {type(value).__name__}; it must be a bool, int, float, str or a "
                                   "tuple of such")


def put_own_message(entries: Mapping[bytes, "Mapping[str, bytes | ArtifactOutput]"], tunings: bool = False, job: str = "") -> Any:
    """The message of a PutOwn. InvalidArgumentError."""
    message = kernel_service_pb2.PutOwnRequest(tunings=tunings, job=_validate.text(job, "job"))
    if not isinstance(entries, Mapping):
        raise _validate.mistaken("entries", entries, "a mapping such as {b'key': {'name': b'content'}}")
    for key, files in entries.items():
        entry = message.entries.add(key=raw(key, "a key in entries"))
        for name, content in _items(files, f"the files of {_validate.shown(key)}", "{'name': b'content'}"):
            what = f"the content of {_validate.shown(name)}"
            if isinstance(content, ArtifactOutput):
                output = kernel_service_pb2.ArtifactOutput(
                    key=digest_bytes(content.key, f"{what}: key"), stage=_validate.text(content.stage, f"{what}: stage", "such as 'cubin'"))
                entry.files.add(name=name, digest=digest_bytes(content.digest, f"{what}: digest"), output=output)
            else:
                content = raw(content, what)
                entry.files.add(name=name, digest=hashlib.sha256(content).digest(), content=content)
    return message


def raw(given: bytes, what: str) -> bytes:
    """InvalidArgumentError for what is not bytes."""
    if not isinstance(given, (bytes, bytearray, memoryview)):
        raise _validate.mistaken(what, given, "bytes")
    return bytes(given)


def digest_bytes(digits: str, what: str) -> bytes:
    """InvalidArgumentError for what is not 64 hex digits."""
    if not isinstance(digits, str) or not _DIGEST.fullmatch(digits):
        raise InvalidArgumentError(f"{what}: {_validate.shown(digits)} is not 64 hex digits")
    return bytes.fromhex(digits)


# --- From messages ---------------------------------------------------------------------------------------------------


def artifact(message: Any, outcome: str = "", tier: str = "") -> Artifact:
    """The artifact of a CompileResponse; with an outcome, of a LookupResponse.Entry; with a tier, too, of a published file's document.
    DataLossError if a content does not match its digest."""
    return Artifact(
        key=message.key.hex(),
        outcome=outcome or _OUTCOMES.get(message.outcome, ""),
        tier=tier or _TIERS.get(message.tier, ""),
        metadata=_metadata(message.metadata),
        stages={blob.stage: _stage(blob) for blob in message.stages},
        timings={timing.stage: timing.micros / 1e6 for timing in message.timings},
        provenance=_provenance(message.provenance),
        missed_after_warm=getattr(message, "missed_after_warm", False))


def _stage(blob: Any) -> Stage:
    content: Optional[bytes] = blob.content if blob.HasField("content") else None
    if content is not None:
        check_digest(content, blob.digest)
    return Stage(blob.stage, blob.digest.hex(), blob.size_bytes, content)


def user_cache(response: Any) -> "dict[bytes, dict[str, bytes]]":
    """The entries of a GetOwnResponse. DataLossError if a content does not match its digest."""
    entries = {}
    for entry in response.entries:
        for file in entry.files:
            check_digest(file.content, file.digest)
        entries[entry.key] = {file.name: file.content for file in entry.files}
    return entries


def check_digest(content: bytes, digest: bytes) -> None:
    """Raises DataLossError if the digest is not the content's."""
    if hashlib.sha256(content).digest() != digest:
        raise DataLossError(f"the daemon sent other bytes than those of {digest.hex()}")


def _metadata(message: Any) -> KernelMetadata:
    return KernelMetadata(
        backend=message.target.backend,
        architecture=message.target.architecture,
        cluster_dims=tuple(message.cluster_dims),
        registers=message.registers if message.HasField("registers") else None,
        spill_bytes=message.spill_bytes if message.HasField("spill_bytes") else None,
        tensor_descriptors=tuple(
            TensorDescriptor(one.swizzle, one.elem_size, one.elem_type, tuple(one.block_size), one.fp4_padded)
            for one in message.tensor_descriptors),
        parameters=tuple(KernelParameter(one.name, one.type) for one in message.parameters),
        **{name: getattr(message, name) for name in _ALIKE})


def _provenance(message: Any) -> Provenance:
    return Provenance(message.toolchain, message.toolchain_fingerprint.hex(), message.assembler, message.kiln_version,
                      message.host, message.compiled_unix_ms / 1e3, message.compile_micros / 1e6)


def nearest(response: Any) -> Optional[NearestArtifact]:
    """The artifact of a NearestResponse, or None."""
    if not response.key:
        return None
    return NearestArtifact(
        key=response.key.hex(),
        toolchain=response.toolchain,
        target=f"{response.target.backend}:{response.target.architecture}",
        created_at=response.created_unix_ms / 1e3,
        differences=tuple(Difference(one.field, one.asked, one.stored) for one in response.differences),
        has_seen_all=response.has_seen_all)


def published_toolchains(raw: bytes) -> List[Toolchain]:
    """The toolchains of a serialized ListToolchainsResponse. Raises what protobuf raises."""
    return toolchains(kernel_service_pb2.ListToolchainsResponse.FromString(raw))


def toolchains(response: Any) -> List[Toolchain]:
    """The toolchains of a ListToolchainsResponse."""
    words = {kind: word for word, kind in KINDS.items()}
    return [
        Toolchain(one.name, one.version, one.fingerprint.hex(), one.assembler,
                  tuple(words[kind] for kind in one.kinds if kind in words),
                  tuple(_backend(backend) for backend in one.backends), one.is_default)
        for one in response.toolchains
    ]


def _backend(message: Any) -> Backend:
    options = tuple(
        OptionDeclaration(one.name, one.type, _value(one.default_value) if one.HasField("default_value") else None)
        for one in message.options)
    return Backend(message.backend, tuple(message.architectures), tuple(message.stages), options)


def _value(message: Any) -> Any:
    kind = message.WhichOneof("value")
    if kind == "tuple_value":
        return tuple(_value(item) for item in message.tuple_value.items)
    return None if kind is None else getattr(message, kind)


# --- Errors ----------------------------------------------------------------------------------------------------------


def rpc_error(code: int, body: bytes) -> KilnError:
    """The exception for a failed call, from the number of its code and its RpcStatus."""
    name = _CODES[code] if code < len(_CODES) else "UNKNOWN"
    message, details = "", {}
    with suppressed(Exception):  # without readable details, code and message remain
        status = kernel_service_pb2.RpcStatus.FromString(body)
        message = status.message
        details = _details(status)
    if name == "FAILED_PRECONDITION":
        message = _ptxas.with_path(message)
    return error_for(name, message, **details)


def _details(status: Any) -> "dict[str, Any]":
    """The further arguments of error_for."""
    found: "dict[str, Any]" = {}
    for detail in status.details:
        if detail.type_url == _DETAIL_URL + "CompileDiagnostics":
            found["diagnostics"] = _diagnostics(kernel_pb2.CompileDiagnostics.FromString(detail.value))
            found["key"] = found["diagnostics"].key
        elif detail.type_url == _DETAIL_URL + "RetryHint":
            found["retry_after_s"] = kernel_service_pb2.RetryHint.FromString(detail.value).retry_after_ms / 1e3
        elif detail.type_url == _DETAIL_URL + "RequestKey":
            found["key"] = kernel_service_pb2.RequestKey.FromString(detail.value).key.hex()
    return found


def _diagnostics(message: Any) -> Diagnostics:
    notes = tuple(DiagnosticNote(one.file, one.line, one.column, one.message) for one in message.notes)
    return Diagnostics(message.stage, message.message, message.line, message.column, message.output, message.key.hex(), notes)
