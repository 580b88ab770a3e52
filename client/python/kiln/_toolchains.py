"""The key of a request, by the toolchains that the daemon publishes in the hot directory.

As daemon/kernel/request_resolver.cc and daemon/kernel/canonical_options.cc resolve a request. Where anything is uncertain there is no
key: the daemon is asked, so that every error is the daemon's.
"""

from typing import Any, Dict, List, Optional, Tuple

from kiln import _ptxas
from kiln.artifact import Backend, Toolchain
from kiln.key import LAUNCH_PARAMETERS, Parameter, compile_key, encoded_value
from kiln.request import PRIORITIES, CompileRequest

_NAME_BYTES_MAX = 1024
# The daemon refuses them, or some of their values, since they may name files.
_FILE_OPTIONS = ("ir_override", "extern_libs", "ptx_options")
_TYPES: "Dict[str, Tuple[type, ...]]" = {
    "bool": (bool,), "integer": (int,), "number": (int, float), "string": (str,), "tuple": (tuple, list),
    "any": (bool, int, float, str, tuple, list)
}
_Declared = Dict[str, Tuple[Tuple[type, ...], Optional[bytes]]]


class Unsure(Exception):
    """The daemon has to be asked."""


class Toolchains:
    """Thread-safe."""

    def __init__(self, there: "List[Toolchain]") -> None:
        """there: in the daemon's order."""
        self._there = there
        self._declared: "Dict[Tuple[str, str], _Declared]" = {}

    def key_of(self, request: CompileRequest) -> str:
        """The key under which the daemon looks. Unsure; also whatever a request leads to that has no key."""
        _check_beside_key(request)
        backend, _, rest = request.target.partition(":")
        architecture, _, given_warp_size = rest.partition(":")
        warp_size = 1 if backend == "spirv" else 64 if backend == "hip" and len(architecture) < len("gfx1030") else 32
        if given_warp_size not in ("", str(warp_size)) or request.options.get("warp_size") not in (None, warp_size):
            raise Unsure
        toolchain, described = self._chosen(request.toolchain, request.kind, backend, architecture)
        ptxas = ""
        if request.ptxas:
            if request.kind not in ("ttir", "ttgir") or backend != "cuda":
                raise Unsure
            ptxas = self._chosen(_ptxas.selector(request.ptxas), "ptx", backend, architecture)[0].fingerprint
        launch, options = _canonical(self._options(toolchain, described), request)
        return compile_key(
            kind=request.kind, source=request.source, backend=backend, architecture=architecture, warp_size=warp_size,
            toolchain_fingerprint=bytes.fromhex(toolchain.fingerprint), parameters=request.parameters, launch=launch, options=options,
            ptxas=ptxas, headers=request.headers)

    def _chosen(self, selector: str, kind: str, *target: str) -> "Tuple[Toolchain, Backend]":
        if selector:
            named = [one for one in self._there if selector in (one.fingerprint, f"{one.name}=={one.version}")]
        elif not self._there[0].is_default:
            raise Unsure
        elif kind in self._there[0].kinds:
            named = self._there[:1]
        else:  # of kinds that the default does not compile, the first that fits
            named = [one for one in self._there if kind in one.kinds and _fitting(one, *target)][:1]
        if len(named) == 1 and kind in named[0].kinds and (fitting := _fitting(named[0], *target)):
            return named[0], fitting
        raise Unsure

    def _options(self, toolchain: Toolchain, backend: Backend) -> _Declared:
        """Types and the default's encoding, or None, by name."""
        place = (toolchain.fingerprint, backend.backend)
        if place not in self._declared:
            self._declared[place] = {
                one.name: (_TYPES[one.type], None if one.default is None else encoded_value(one.default)) for one in backend.options}
        return self._declared[place]


def _fitting(toolchain: Toolchain, backend: str, architecture: str) -> Optional[Backend]:
    return next((one for one in toolchain.backends if one.backend == backend and architecture in one.architectures), None)


def _check_beside_key(request: CompileRequest) -> None:
    """Checks what is not in the key, and where the key takes more types than a request. An iterator is not to be used up."""
    if not isinstance(request.stages, (list, tuple)) or not isinstance(request.parameters, (list, tuple)):
        raise Unsure
    texts = [request.kind, request.target, request.name, request.job, request.toolchain, *request.stages]
    for parameter in request.parameters:
        if not isinstance(parameter, Parameter):
            raise Unsure
        texts += [parameter.name, parameter.type]
    if not all(isinstance(text, str) and len(text.encode()) <= _NAME_BYTES_MAX for text in texts):
        raise Unsure
    if request.cache not in ("use", "only-if-cached") or request.priority not in PRIORITIES:
        raise Unsure


def _canonical(declared: _Declared, request: CompileRequest) -> "Tuple[Dict[str, Any], Dict[str, Any]]":
    """Launch parameters and options that are not at their defaults."""
    launch: "Dict[str, Any]" = {}
    options: "Dict[str, Any]" = {}
    for name, value in request.options.items():
        if value is None:
            continue
        types, default = declared.get(name, ((), None))
        if type(value) not in types or name in _FILE_OPTIONS:
            raise Unsure
        if encoded_value(value) != default:
            (launch if name in LAUNCH_PARAMETERS else options)[name] = value
    return launch, options
