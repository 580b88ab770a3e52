"""The settings of the environment. Read once, when the plug-in is imported."""

import contextlib
import logging
import math
import os
from typing import Iterator, Mapping, NamedTuple, Optional, Tuple

from kiln import _validate
from kiln._signals import suppressed
from kiln.errors import InvalidArgumentError

MODES = ("off", "use", "require", "record")
TUNINGS = ("use", "renew", "off")
LOG = logging.getLogger("kiln")

_TIMEOUT_S = 300.0  # the daemon's own limit on a compile


class Settings(NamedTuple):
    """mode: one of MODES. manifest: the file that `record` writes. timeout_s: for one kernel. server_uid: a uid whose daemon
    is trusted besides root's and this user's. exit_line: whether a process that ends prints its report: "always",
    "never", or "after a miss" of a job that was warmed. tunings: one of TUNINGS. basedirs: absolute paths of folders that make no
    difference, besides Inductor's; None: nor does Inductor's. job: its name for the daemon, where users see what was done for it,
    and jobs of one user take turns."""
    mode: str = "use"
    manifest: str = ""
    timeout_s: float = _TIMEOUT_S
    server_uid: Optional[int] = None
    exit_line: str = "after a miss"
    tunings: str = "use"
    basedirs: Optional[Tuple[str, ...]] = ()
    job: str = ""

    @staticmethod
    def of(environment: Mapping[str, str] = os.environ) -> "Settings":
        """Logs an invalid value and takes the default: a job must not end because of it."""
        mode = _one_of(MODES, environment, "KILN_MODE")
        manifest = environment.get("KILN_MANIFEST", "") or "kiln-manifest.jsonl"
        return Settings(
            mode=mode,
            manifest=_absolute(manifest) if mode == "record" else "",
            timeout_s=_number(environment, "KILN_TIMEOUT", _TIMEOUT_S),
            server_uid=_whole(environment, "KILN_SERVER_UID"),
            exit_line={"": "after a miss", "0": "never"}.get(environment.get("KILN_REPORT", ""), "always"),
            tunings=_one_of(TUNINGS, environment, "KILN_TUNINGS"),
            basedirs=None if environment.get("KILN_BASEDIRS") == "" else tuple(_folders(environment.get("KILN_BASEDIRS", ""))),
            job=_validate.job_of(environment))


def _one_of(words: "Tuple[str, ...]", environment: Mapping[str, str], name: str) -> str:
    word = environment.get(name, "") or "use"
    if word in words:
        return word
    LOG.warning("kiln: %s=%s is not one of %s; using 'use'", name, word, ", ".join(words))
    return "use"


def _absolute(path: str) -> str:
    with suppressed(OSError):
        return os.path.abspath(path)
    return path  # the working directory is gone; opening the manifest will fail and say so


def _folders(text: str) -> Iterator[str]:
    for named in filter(None, text.split(":")):
        path = os.path.expandvars(os.path.expanduser(named))
        if os.path.isabs(path) and os.path.normpath(path).strip("/"):
            yield path
        else:
            LOG.warning("kiln: KILN_BASEDIRS: %r is not an absolute path of a folder below /; leaving it out", path)


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if 0 < value < math.inf:
        return value
    LOG.warning("kiln: %s=%s is not a number of seconds; using %g", name, text, default)
    return default


def _whole(environment: Mapping[str, str], name: str) -> Optional[int]:
    text = environment.get(name, "")
    if not text:
        return None
    if text.isdecimal():
        with contextlib.suppress(ValueError, InvalidArgumentError):
            return _validate.user(int(text), name)
    LOG.warning("kiln: %s=%s is not a uid; trusting root and this user alone", name, text)
    return None
