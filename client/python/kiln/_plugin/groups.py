"""Keeps Triton's files of a kernel in the own namespace, under Triton's key: a later process finds them before it lowers.

For a kernel that the daemon made, the files after TTIR refer to the artifact and go with it; the others are kept as bytes.
For a kernel that Triton made (the daemon lacks the toolchain, or this Triton has no hook) all files are kept as bytes.
"""

import base64
import contextlib
import functools
import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple, Union

import triton

from kiln import _process
from kiln._plugin import announcement, basedirs, eligibility, identity, lowering_warnings, own, source_dependencies
from kiln._plugin.attempt import attempt
from kiln._plugin.manifest import manifest_of
from kiln._plugin.service import Declined, service
from kiln._plugin.settings import Settings
from kiln._report import counters

if TYPE_CHECKING:
    from kiln.artifact import Artifact

# Not files of Triton's: how long the compile took, and what lowering warned of.
_SECONDS, _WARNINGS = "kiln.seconds", "kiln.warnings"
_ANSWERS_MAX = 256
# Before this version Triton runs the machine's linker for AMD; Triton's key has only its version.
_LINKS_BY_ITSELF = (3, 5)
# Expected reasons for not looking or not keeping.
_FORESEEN = (Declined, source_dependencies.Unknown)


class Groups:
    """Thread-safe. Raises only what a signal's handler raises; any other failure means that nothing is found or kept."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Answers for compiles that Triton has not finished, by the name of Triton's folder. None: the daemon lacks the toolchain.
        self._answers: "Dict[str, Optional[Artifact]]" = {}

    def note(self, triton_hash: str, artifact: "Optional[Artifact]") -> None:
        """Notes the daemon's answer for the kernel of that key. None: it has no toolchain for it."""
        if len(self._answers) >= _ANSWERS_MAX:  # left by compiles that failed afterwards
            self._answers.clear()
        with contextlib.suppress(ValueError):  # a key of another kind
            self._answers[_folder(triton_hash)] = artifact

    def find(self, folder: str, name: str, asked: Tuple[Any, Any], target: Any, is_wanted: bool) -> "Tuple[bytes, Optional[Dict[str, bytes]]]":
        """The key for keep(), and the files of the group `name`, in Triton's order, or None. asked: the source and the options of
        Triton's compile(); target: its target. An empty key: such a kernel is not kept."""
        started = time.monotonic()
        key, found = b"", None
        announcement.end()  # of a kernel that did not compile
        with attempt(f"to look for {name} by Triton's key", _FORESEEN):
            eligibility.check_switches(*eligibility.vendors_of(target))
            service(self._settings).prepare()
            key = _key(folder, name, asked, self._settings)
            if is_wanted:
                found = service(self._settings).get_own(key)
                if not found and announcement.waited(key):
                    found = service(self._settings).get_own(key)
            if found and name in found:
                seconds = float(found.pop(_SECONDS, b"0"))
                if all(map(_is_file_name, found)):
                    lowering_warnings.say_again(found.pop(_WARNINGS, b""))
                    counters().answered("hit", "own", time.monotonic() - started, seconds)
                    service(self._settings).note_own_hit(seconds, sum(map(len, found.values())))
                    return key, found
        counters().add(time.monotonic() - started)
        lowering_warnings.begin()
        return key, None

    def keep(self, key: bytes, folder: str, name: str, asked: Tuple[Any, Any], contents: Mapping[str, Union[str, bytes]], is_asked_for: bool) -> None:
        """Keeps the group `name` of a kernel that was just compiled. key: from find(), before the compile; if it has changed since,
        nothing is kept. is_asked_for: this Triton has the hook, so only a kernel with a noted answer may be kept."""
        has_answer = folder in self._answers
        artifact = self._answers.pop(folder, None)
        warned = lowering_warnings.end(lambda file: basedirs.name_in_key(file, self._settings) or file)
        try:
            if key and (has_answer or not is_asked_for):
                with attempt(f"to keep {name} by Triton's key", _FORESEEN):
                    self._keep(key, folder, name, asked, contents, artifact, warned)
        finally:
            announcement.end()

    def _keep(self, key: bytes, folder: str, name: str, asked: Tuple[Any, Any], contents: Mapping[str, Union[str, bytes]],
              artifact: "Optional[Artifact]", warned: bytes) -> None:
        if artifact is not None:  # it may have its name in the key without its folders
            contents = {file: basedirs.rewritten_text(content, self._settings) if isinstance(content, str) else content
                        for file, content in contents.items()}
        files = {file: _encoded(content) for file, content in contents.items()}
        if sum(map(len, files.values())) > own.BYTES_MAX or _key(folder, name, asked, self._settings) != key:
            return
        if artifact is None:
            if _key(folder, name, asked) != key:  # Triton's line tables name the folder
                return
            eligibility.check_switches()
            _check_metadata(json.loads(files[name]))
            kept: Dict[str, Any] = {**files}
        else:
            kept = {file: _output(artifact, file, content) or content for file, content in files.items()}
            kept[_SECONDS] = str(artifact.provenance.compile_seconds).encode()
        if warned:
            kept[_WARNINGS] = warned
        if artifact is not None:
            if (manifest := manifest_of(self._settings)) is not None:
                manifest.add_own(key, kept)
        service(self._settings).connect()
        service(self._settings).put_own(key, kept)


def _key(folder: str, name: str, asked: Tuple[Any, Any], settings: Optional[Settings] = None) -> bytes:
    return key_of("kernel", asked, settings, folder=folder, name=name)


def key_of(what: str, asked: Tuple[Any, Any], settings: Optional[Settings], **decides: Any) -> bytes:
    """The key for what a kernel and these values decide. asked: as for Groups.find. settings: None for files that name the folders of
    their sources. Declined, source_dependencies.Unknown, OSError."""
    for _, library in asked[1].extern_libs:
        identity.check_installed(library)
    source = source_dependencies.digest(*asked, lambda file: basedirs.name_in_key(file, settings))
    return own.key_of(what, source=source, **own.triton_here(), **decides)


def _folder(triton_hash: str) -> str:
    return base64.b32encode(bytes.fromhex(triton_hash)).decode().rstrip("=")


def _encoded(content: Union[str, bytes]) -> bytes:
    return content if isinstance(content, bytes) else content.encode(own.encoding())


def _output(artifact: "Artifact", file: str, content: bytes) -> Any:
    """None if the file is not the artifact's: two different kernels may have one key of Triton's and compile at once."""
    stage = artifact.stages.get(file.rpartition(".")[2])
    if not stage or stage.digest != hashlib.sha256(content).hexdigest():
        return None
    return _process.imported("kiln.artifact").ArtifactOutput(artifact.key, stage.name, stage.digest)


def _is_file_name(name: str) -> bool:
    return "/" not in name and not name.startswith((".", "__grp__"))


def _check_metadata(metadata: Mapping[str, Any]) -> None:
    """Raises NotExpressible for a kernel that Triton's key and ours together do not determine."""
    backend = metadata["target"]["backend"]
    version = tuple(map(int, triton.__version__.split(".")[:2]))
    if backend not in ("cuda", "hip") or not set(triton.backends.backends) <= {"nvidia", "amd"}:
        raise eligibility.NotExpressible("its backend is not one of Triton's own")
    if backend == "hip" and version < _LINKS_BY_ITSELF:
        raise eligibility.NotExpressible("its linker is a program of the machine's")
    if metadata.get("instrumentation_mode") or metadata.get("ir_override"):
        raise eligibility.NotExpressible("it is instrumented")


@functools.lru_cache(maxsize=None)
def groups(settings: Settings) -> Groups:
    """This process's."""
    return Groups(settings)
