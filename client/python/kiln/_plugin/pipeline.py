"""Puts Kiln's answer in the place of Triton's own stages after `ttir`."""

import json
import time
from typing import Any, Callable, Dict, Optional

from triton import knobs

from kiln._plugin import autotune, eligibility, identity
from kiln._plugin.groups import groups
from kiln._plugin.manifest import Manifest
from kiln._plugin.service import Declined, Unsuited, service
from kiln._plugin.settings import LOG, Settings
from kiln.artifact import Artifact, NearestArtifact
from kiln.errors import CacheMissError, NotFoundError
from kiln._report import counters
from kiln.request import CompileRequest

_BINARIES = ("cubin", "hsaco")
# The one entry of the metadata that a stage overwrites: warp specialization raises it.
_OVERWRITTEN = ("num_warps",)
_Stage = Callable[[Any, Dict[str, Any]], Any]


class Pipeline:
    """How this process compiles. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._manifest = Manifest(settings.manifest) if settings.mode == "record" else None

    def take_over(self, backend: Any, stages: Dict[str, _Stage], options: Any) -> None:
        """Wraps those stages of one compile that the daemon can run; leaves the others alone."""
        if "ttgir" not in stages:
            return
        local = dict(stages)
        after = list(stages)[list(stages).index("ttgir") + 1:]
        answer: Dict[str, Any] = {}

        def first(module: Any, metadata: Dict[str, Any]) -> Any:
            artifact = self._ask(backend, local, options, module, metadata["hash"])
            if artifact is None:
                return local["ttgir"](module, metadata)
            answer.update(_outputs(artifact, ["ttgir", *after]))
            _complete(metadata, artifact)
            return answer["ttgir"]

        def later(stage: str) -> _Stage:
            return lambda source, metadata: answer[stage] if answer else local[stage](source, metadata)

        stages["ttgir"] = first
        for stage in after:
            stages[stage] = later(stage)

    def _ask(self, backend: Any, stages: Dict[str, _Stage], options: Any, module: Any,
             triton_hash: str) -> Optional[Artifact]:
        """None: Triton is to compile it. CacheMissError where it must not."""
        started = time.monotonic()
        try:
            self._check(backend, stages, options)
            if self._manifest is None:
                service(self._settings).connect()  # before the compiler is read, which can take a second
            request = self._request(backend, stages, options, module)
            if self._manifest is not None:
                self._manifest.add(request)
            artifact = service(self._settings).compile(request)
        except NotFoundError as miss:
            nearest = None if autotune.is_ahead() else service(self._settings).nearest(request)
            raise _cache_miss(str(miss), request, nearest) from None
        except Declined as declined:
            self._compile_here(declined.reason, started)
            if isinstance(declined, Unsuited):
                groups(self._settings).note(triton_hash, None)
            return None
        except Exception as error:  # whatever it is, the job goes on
            LOG.debug("kiln: a compile stays here", exc_info=True)
            self._compile_here(f"{type(error).__name__}: {error}", started)
            return None
        waited_s = time.monotonic() - started
        counters().answered(artifact.outcome, artifact.tier, waited_s, artifact.provenance.compile_seconds)
        groups(self._settings).note(triton_hash, artifact)
        return artifact

    def _compile_here(self, reason: str, started: float) -> None:
        if self._settings.mode == "require":
            raise CacheMissError(f"KILN_MODE=require, and Triton would have to compile: {reason}") from None
        counters().compiled_here(reason, time.monotonic() - started)

    @staticmethod
    def _check(backend: Any, stages: Dict[str, _Stage], options: Any) -> None:
        try:
            eligibility.check(backend, stages, options)
        except eligibility.NotExpressible as why:
            raise Declined(str(why)) from None

    def _request(self, backend: Any, stages: Dict[str, _Stage], options: Any, module: Any) -> CompileRequest:
        """Of a compile that has been checked."""
        try:
            given = eligibility.expressed(backend, options)
            toolchain, ptxas = identity.toolchain_fingerprint(), _ptxas(backend)
        except (eligibility.NotExpressible, identity.ChangedError) as why:
            raise Declined(str(why)) from None
        target = backend.target
        wanted = [stage for stage in list(stages)[list(stages).index("ttgir"):]
                  if stage in _BINARIES or not knobs.compilation.store_binary_only]
        return CompileRequest(
            source=str(module),
            target=f"{target.backend}:{target.arch}:{target.warp_size}",
            name=_name(module),
            options=given,
            toolchain=toolchain,
            ptxas=ptxas,
            stages=wanted,
            cache="only-if-cached" if self._settings.mode == "require" else "use",
            priority="autotune" if autotune.is_ahead() else "waiting-rank")


def _ptxas(backend: Any) -> str:
    """The digest of the one that this process would run; "" where it is the toolchain's own."""
    if backend.target.backend != "cuda":
        return ""
    import triton
    from triton.backends.nvidia.compiler import get_ptxas
    path = get_ptxas(backend.target.arch).path
    if path.startswith(triton.__path__[0] + "/"):
        return ""  # its bytes are in the fingerprint
    return identity.file_digest(path)


def _name(module: Any) -> str:
    """The kernel's, for people."""
    try:
        return str(module.get_entry_func_name())
    except Exception:
        return ""


def _outputs(artifact: Artifact, stages: "list[str]") -> Dict[str, Any]:
    """What each stage returns: text, and bytes of the binary. Those that were not asked for are not looked at either."""
    outputs: Dict[str, Any] = {stage: "" for stage in stages}
    for stage, output in artifact.stages.items():
        content = artifact.content(stage)
        outputs[stage] = content if output.name in _BINARIES else content.decode()
    return outputs


def _complete(metadata: Dict[str, Any], artifact: Artifact) -> None:
    """Adds what the stages would have, in their order, which is that of Triton's JSON."""
    made = json.loads(artifact.metadata.toolchain_metadata)
    for name, value in made.items():
        if name not in metadata or name in _OVERWRITTEN:
            metadata[name] = value


def _cache_miss(message: str, request: CompileRequest, nearest: Optional[NearestArtifact]) -> CacheMissError:
    options = ", ".join(f"{name}={value}" for name, value in request.options.items())
    words = (f"KILN_MODE=require: {message}: {request.name or 'a kernel'} for {request.target}, toolchain "
             f"{request.toolchain[:12]}{f', ptxas {request.ptxas[:12]}' if request.ptxas else ''}, {options}")
    near = f"the nearest that is stored: {nearest}" if nearest else "nothing of that name is known to be stored"
    return CacheMissError(f"{words}. {near}", request=request, nearest=nearest)
