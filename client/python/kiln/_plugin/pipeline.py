"""Replaces Triton's stages after `ttir` by the daemon's answer."""

import dataclasses
import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Union

from triton import knobs
from triton.compiler import compiler

from kiln._plugin import announcement, autotune_prefetch, eligibility, identity, manifest, other_targets
from kiln._plugin.basedirs import rewritten_text
from kiln._plugin.groups import groups
from kiln._plugin.shared_lowering import FrontEnd, Lowered
from kiln._plugin.ttir_text import text_of
from kiln._plugin.service import BrokenOff, Declined, Failed, Unsuited, service
from kiln._plugin.settings import LOG, Settings
from kiln.artifact import Artifact
from kiln.errors import CacheMissError, NotFoundError
from kiln._report import counters
from kiln._signals import reraise_from_handler, suppressed
from kiln.request import CompileRequest

if TYPE_CHECKING:
    from kiln.artifact import NearestArtifact

_BINARIES = ("cubin", "hsaco")
# The only metadata that a stage overwrites: warp specialization raises it.
_OVERWRITTEN = ("num_warps",)
# Triton cannot load a kernel without these.
_NEEDED = ("name", "shared")
_DECLINED_MAX = 256
_HOW_TO_STORE = ("To have it stored: run the job once under kiln record, then kiln warm with its manifest. Where the job has run before,\n"
                 "  kiln record --job NAME writes the manifest on that node.\n"
                 "  A kernel that does not compile is never stored, but after kiln warm the daemon remembers it until it ends")
# CacheMissError is to fit one screen.
_OPTIONS_CHARACTERS_MAX = 400
_DIFFERENCES_MAX, _DIFFERENCE_CHARACTERS_MAX = 5, 100
_Stage = Callable[[Any, Dict[str, Any]], Any]


class _Answer(NamedTuple):
    """outputs: what each stage returns. metadata: what the stages add."""
    outputs: Dict[str, Any]
    metadata: Dict[str, Any]


class Pipeline:
    """Compiles for this process. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._manifest = manifest.manifest_of(settings)
        self._has_warned = False
        self._declined_ahead: Dict[str, Declined] = {}  # by Triton's key

    def take_over(self, backend: Any, stages: Dict[str, _Stage], options: Any) -> None:
        """Wraps the stages of one compile that the daemon can run."""
        if "ttgir" not in stages or other_targets.is_asking():
            return
        local = dict(stages)
        taken: Dict[str, _Stage] = {}  # the stages as they are after this
        after = list(stages)[list(stages).index("ttgir") + 1:]
        outputs: Dict[str, Any] = {}

        def first(module: Any, metadata: Dict[str, Any]) -> Any:
            compiling = sys._getframe(1)  # Triton's compile(), unless a hook has wrapped this stage
            is_alone = compiling.f_globals is vars(compiler) and compiling.f_locals.get("stages") == taken
            taken.clear()  # holds this function
            source = compiling.f_locals.get("src")
            answer = self._ask(backend, local if is_alone else {}, options, module, metadata, source)
            if answer is None:
                return local["ttgir"](module, metadata)
            outputs.update(answer.outputs)
            metadata.update(answer.metadata)
            return outputs["ttgir"]

        def later(stage: str) -> _Stage:
            return lambda source, metadata: outputs[stage] if outputs else local[stage](source, metadata)

        stages["ttgir"] = first
        if "ttir" in local:
            stages["ttir"] = lambda module, metadata: module.ttir if type(module) is FrontEnd else local["ttir"](module, metadata)
        for stage in after:
            stages[stage] = later(stage)
        taken.update(stages)

    def _ask(self, backend: Any, stages: Dict[str, _Stage], options: Any, module: Any,
             metadata: Dict[str, Any], source: Any) -> Optional[_Answer]:
        """stages: as Triton has made them; none if a hook has changed them since. source: what Triton compiles. None: Triton compiles. In the mode `require` raises
        CacheMissError, or Triton's own error for a source that is known not to compile. Ahead of an Autotuner raises whatever failed.
        A signal handler's exception always passes."""
        triton_hash = metadata.get("hash", "")
        started = time.monotonic()
        request: Optional[CompileRequest] = None
        recording: Optional[manifest.Recording] = None
        try:
            eligibility.check(backend, stages, options)
            if not autotune_prefetch.is_ahead() and (declined := self._declined_ahead.pop(triton_hash, None)):
                raise declined.again()
            if self._manifest is None:
                service(self._settings).prepare()  # before the fingerprint, which can take a second
            request = self._request(backend, stages, options, module)
            if self._manifest is not None:
                said = eligibility.without_defaults(request.options, backend, options)
                recording = manifest.Recording(dataclasses.replace(request, options=said), other_targets.same_ir_targets(source, backend, said))
            autotune_prefetch.end_turn()
            artifact = service(self._settings).compile(request)
            autotune_prefetch.let_others_lower()
            if recording is not None:
                known = recording._replace(compile_seconds=artifact.provenance.compile_seconds)
                recording = None
                self._record(known)
            answer = _answer(artifact, request.stages, stages, metadata)  # complete before Triton sees a part
            groups(self._settings).note(triton_hash, artifact)
        except Exception as error:  # the job goes on, whatever it is
            if recording is not None:
                self._record(recording._replace(is_refused=isinstance(error, Failed)))
            reraise_from_handler(error)
            if autotune_prefetch.is_ahead():
                self._note_declined_ahead(triton_hash, error, started)
                raise
            if isinstance(error, Unsuited):
                groups(self._settings).note(triton_hash, None)
            else:
                announcement.end()  # what Triton compiles now is not kept
            self._decline(error, request or _asked_for(backend, module), started)
            return None
        counters().answered(artifact.outcome, artifact.tier, time.monotonic() - started, artifact.provenance.compile_seconds,
                            artifact.missed_after_warm)
        return answer

    def _record(self, recording: manifest.Recording) -> None:
        if self._manifest is not None:
            self._manifest.add(recording)

    def _note_declined_ahead(self, triton_hash: str, error: Exception, started: float) -> None:
        """Remembers the refusal, so that the kernel's turn does not wait again. Not if the wait was broken off."""
        counters().add(time.monotonic() - started)
        if isinstance(error, Declined) and not isinstance(error, BrokenOff):
            if len(self._declined_ahead) >= _DECLINED_MAX:  # left by tunings that were broken off
                self._declined_ahead.clear()
            self._declined_ahead[triton_hash] = error.again()

    def _decline(self, error: Exception, request: "Union[CompileRequest, str]", started: float) -> None:
        """Counts and logs the refusal. In the mode `require` raises CacheMissError, or Triton's own error."""
        is_foreseen = isinstance(error, (Declined, NotFoundError))
        reason = str(error) if is_foreseen else f"{type(error).__name__}: {error}"
        if self._settings.mode == "require":
            counters().add(time.monotonic() - started, refused=1)
            if isinstance(error, Failed):
                _raise_refusal(error)
            details = getattr(error, "details", "")
            raise self._cache_miss(f"{reason} ({details})" if details else reason, request, isinstance(error, NotFoundError)) from None
        if not is_foreseen:
            LOG.log(logging.DEBUG if self._has_warned else logging.WARNING, "kiln: a compile stays here: %s", reason)
            LOG.debug("kiln: the error", exc_info=error)
            self._has_warned = True
        counters().compiled_here(reason, time.monotonic() - started)

    def _cache_miss(self, reason: str, request: "Union[CompileRequest, str]", was_looked_up: bool) -> CacheMissError:
        if isinstance(request, str):  # no request could be made
            return CacheMissError(f"KILN_MODE=require, and Triton would have to compile {request}: {reason}")
        nearest = service(self._settings).nearest(request) if was_looked_up else None
        words = f"KILN_MODE=require: {reason}: {_described(request)}"
        near = f"\n  {_described_nearest(nearest)}\n  {_HOW_TO_STORE}" if was_looked_up else ""
        return CacheMissError(words + near, request=request, nearest=nearest)

    def _request(self, backend: Any, stages: Dict[str, _Stage], options: Any, module: Any) -> CompileRequest:
        """The request of a compile that was checked."""
        given = eligibility.expressed(backend, options)
        wanted = [stage for stage in list(stages)[list(stages).index("ttgir"):]
                  if stage in _BINARIES or not knobs.compilation.store_binary_only]
        return CompileRequest(
            source=rewritten_text(module.whole if type(module) is Lowered else text_of(module), self._settings),
            target=eligibility.target_name(backend.target),
            name=_name(module),
            options=given,
            toolchain=identity.toolchain_fingerprint(),
            ptxas=_ptxas(backend),
            stages=wanted,
            cache="only-if-cached" if self._settings.mode == "require" else "use",
            priority="autotune" if autotune_prefetch.is_ahead() else "waiting-rank",
            job=self._settings.job)


def _ptxas(backend: Any) -> str:
    """The digest of the ptxas that this process would run; "" for the toolchain's own."""
    if backend.target.backend != "cuda":
        return ""
    from triton.backends.nvidia.compiler import get_ptxas
    return identity.assemblers()[get_ptxas(backend.target.arch).path]


def _name(module: Any) -> str:
    """The kernel's name, for people."""
    with suppressed(Exception):
        return str(module.get_entry_func_name())
    return ""


def _raise_refusal(why: Failed) -> None:
    """Raises Triton's PTXASError if the assembler refused the kernel: an Autotuner then goes on with other configurations. Returns if
    something else refused it: that ends Triton's tunings, too."""
    kind = getattr(sys.modules.get("triton.runtime.errors"), "PTXASError", None)
    said = why.diagnostics
    if kind is not None and said is not None and said.stage == "cubin" and said.output:  # the assembler's words
        raise kind(f"{said.message}\n`ptxas` stderr:\n{said.output}") from None


def _answer(artifact: Artifact, wanted: Sequence[str], stages: Mapping[str, _Stage], metadata: Mapping[str, Any]) -> _Answer:
    """The text of each stage, the bytes of the binary; "" for stages that were not asked for. Declined if the artifact is not
    whole."""
    outputs: Dict[str, Any] = {stage: "" for stage in list(stages)[list(stages).index("ttgir"):]}
    for stage in wanted:
        content = artifact.content(stage) if stage in artifact.stages else b""
        if not content:
            raise Declined(f"the daemon's answer has no {stage}")
        outputs[stage] = content if stage in _BINARIES else content.decode()
    # In the order of Triton's JSON, in which the stages would have added it.
    made = json.loads(artifact.metadata.toolchain_metadata)
    if any(name not in made for name in _NEEDED):
        raise Declined("the daemon's answer lacks metadata that Triton needs")
    return _Answer(outputs, {name: value for name, value in made.items() if name not in metadata or name in _OVERWRITTEN})


def _asked_for(backend: Any, module: Any) -> str:
    """A kernel without a request, for people."""
    return f"{_name(module) or 'a kernel'} for {backend.target.backend}:{backend.target.arch}"


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[:characters - 1] + "…"


def _described(request: CompileRequest) -> str:
    options = ", ".join(f"{name}={value}" for name, value in request.options.items())
    ptxas = f", ptxas {str(request.ptxas)[:12]}" if request.ptxas else ""
    return (f"{_cut(request.name or 'a kernel', _DIFFERENCE_CHARACTERS_MAX)} for {request.target}, toolchain {request.toolchain[:12]}{ptxas}\n"
            f"  options: {_cut(options, _OPTIONS_CHARACTERS_MAX)}")


def _described_nearest(nearest: "Optional[NearestArtifact]") -> str:
    if nearest is None:
        return "nothing of that name is known to be stored"
    shown = [_cut(str(one), _DIFFERENCE_CHARACTERS_MAX) for one in nearest.differences[:_DIFFERENCES_MAX]]
    more = len(nearest.differences) - len(shown)
    return f"the nearest that is stored: {nearest.key[:12]} ({'; '.join(shown) or 'the same'}{f'; {more} more' if more else ''})"
