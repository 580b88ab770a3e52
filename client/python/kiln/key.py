"""The compile key: SHA-256 over everything that decides the bytes of an artifact.

docs/key.md in Kiln's source specifies the encoding; the daemon computes the same one, and
tests/vectors/compile_key.json holds both to it. The arguments are a request in canonical form:
launch parameters are not among the options, and what equals the toolchain's default is absent.
"""

import hashlib
import math
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

from kiln._signals import reraise_from_handler

_SCHEME = b"kiln-key-v1"
_FINGERPRINT_BYTES = 32
# How the daemon's worker calls a ptxas: kPtxasCall in daemon/kernel/compile_key.cc.
_PTXAS_CALL = 2
LAUNCH_PARAMETERS = frozenset({
    "num_warps", "num_stages", "num_ctas", "maxnreg", "cluster_dims", "launch_pdl",
    "launch_cooperative_grid"
})


@dataclass(frozen=True)
class Parameter:
    """One parameter of the kernel: type as Triton spells it, facts, and the value if folded in.

    `constant` None means that the parameter is passed at launch.
    """
    name: str
    type: str
    attributes: Mapping[str, int] = field(default_factory=dict)
    constant: Any = None


def _count(value: int) -> bytes:
    return struct.pack("<Q", value)


def _bytes(value: Union[bytes, str]) -> bytes:
    if not isinstance(value, (str, bytes, bytearray, memoryview)):  # of an int, bytes() makes as many zeros
        raise TypeError(f"expected a text, got {value!r}")
    raw = value.encode() if isinstance(value, str) else bytes(value)
    return _count(len(raw)) + raw


def _integer(value: int) -> bytes:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"expected an int, got {value!r}")
    if not -2**63 <= value < 2**63:
        raise ValueError(f"{value} does not fit 64 bits")
    return b"i" + struct.pack("<q", value)


def encoded_value(value: Any) -> bytes:
    """A typed value; bool comes first, since Python's bool is an int. TypeError or ValueError for what has no encoding."""
    if isinstance(value, bool):
        return b"b" + (b"\1" if value else b"\0")
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
        return b"d" + struct.pack("<d", value)
    if isinstance(value, str):
        return b"s" + _bytes(value)
    if isinstance(value, (tuple, list)):
        return b"t" + _count(len(value)) + b"".join(map(encoded_value, value))
    raise TypeError(f"an option cannot hold {value!r}")


def _map(entries: Mapping[str, Any], encode: Callable[[Any], bytes] = encoded_value) -> bytes:
    """Sorted by the bytes of the names, which is the order of their code points too."""
    ordered = sorted((name.encode(), value) for name, value in entries.items())
    return _count(len(ordered)) + b"".join(_bytes(name) + encode(value) for name, value in ordered)


def _map_of_texts(entries: Mapping[str, Any]) -> bytes:
    return _map(entries, _bytes)


def _parameter(parameter: Parameter) -> bytes:
    constant = b"-" if parameter.constant is None else encoded_value(parameter.constant)
    return (_bytes(parameter.name) + _bytes(parameter.type) + _map(parameter.attributes, _integer) +
            constant)


def _named(name: str, encode: Callable[[Any], bytes], value: Any) -> bytes:
    """What `encode` makes of it, with the argument's name before what it complains of."""
    try:
        return encode(value)
    except (ValueError, RecursionError, TypeError, AttributeError) as error:
        reraise_from_handler(error)
        kind = ValueError if isinstance(error, (ValueError, RecursionError)) else TypeError
        raise kind(f"{name}: {error}") from None


def _fingerprint(value: bytes) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"expected {_FINGERPRINT_BYTES} bytes, got {value!r}")
    if len(value) != _FINGERPRINT_BYTES:
        raise ValueError(f"a fingerprint has {_FINGERPRINT_BYTES} bytes")
    return _bytes(value)


def _parameters(parameters: Iterable[Parameter]) -> bytes:
    encoded = list(map(_parameter, parameters))
    return _count(len(encoded)) + b"".join(encoded)


def _check_options(launch: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    if not LAUNCH_PARAMETERS.issuperset(launch) or not LAUNCH_PARAMETERS.isdisjoint(options):
        raise ValueError("launch parameters belong into `launch`, everything else into `options`")


def _entries(what: str, given: Optional[Mapping[str, Any]]) -> Mapping[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{what}: expected a mapping, got {given!r}")
    return given or {}


def _present(what: str, given: Optional[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {name: value for name, value in _entries(what, given).items() if value is not None}


def canonical_encoding(*,
                       kind: str,
                       source: Union[bytes, str],
                       backend: str,
                       architecture: str,
                       warp_size: int,
                       toolchain_fingerprint: bytes,
                       parameters: Iterable[Parameter] = (),
                       launch: Optional[Mapping[str, Any]] = None,
                       options: Optional[Mapping[str, Any]] = None,
                       ptxas: str = "",
                       headers: Optional[Mapping[str, Union[bytes, str]]] = None) -> bytes:
    """The bytes that are hashed.

    kind: "ttir", "ttgir", "cuda", "ptx" or "opencl". launch, options: values by name; None means absent.
    toolchain_fingerprint: 32 bytes. ptxas: the one that the request names, as the 64 lowercase hex
    digits of its SHA-256. headers: of CUDA C++ or OpenCL C, texts by name.

    Raises TypeError or ValueError for what has no encoding.
    """
    launch, options, headers = _present("launch", launch), _present("options", options), _entries("headers", headers)
    _check_options(launch, options)
    if not isinstance(ptxas, str) or ptxas and not re.fullmatch(r"[0-9a-f]{64}", ptxas):
        raise ValueError("a ptxas is named by the 64 lowercase hex digits of its SHA-256")
    return b"".join([
        _bytes(_SCHEME),
        _bytes("source"),
        _named("kind", _bytes, kind),
        _named("source", _bytes, source),
        _bytes("target"),
        _named("backend", _bytes, backend),
        _named("architecture", _bytes, architecture),
        _named("warp_size", _integer, warp_size),
        _bytes("specialization"),
        _named("parameters", _parameters, parameters),
        _bytes("launch"),
        _named("launch", _map, launch),
        _bytes("options"),
        _named("options", _map, options),
        _bytes("toolchain"),
        _named("toolchain_fingerprint", _fingerprint, toolchain_fingerprint),
        *([_bytes("call"), _integer(_PTXAS_CALL)] if kind == "ptx" else []),
        *([_bytes("ptxas"), _bytes(ptxas)] if ptxas else []),
        *([_bytes("headers"), _named("headers", _map_of_texts, headers)] if headers else []),
    ])


def compile_key(**request: Any) -> str:
    """The key as 64 lowercase hex digits; the arguments are canonical_encoding's."""
    return hashlib.sha256(canonical_encoding(**request)).hexdigest()
