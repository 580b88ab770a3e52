"""Keeps the small libraries that Triton builds with the C compiler: the driver's functions, a launcher for each signature.

Triton's key for a library covers its source and the kind of machine. The compiler, its linker, headers, start files and
libraries decide the bytes as well, so they are in our key. One run of the preprocessor for each set of headers lists them;
it takes a tenth of a build. The compiler may be a wrapper, a program or a script: the commands that the compiler behind it
would run show what the wrapper adds. gcc tells them in 4 ms; a wrapper adds its own time, three times.
"""

import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from typing import Any, Callable, Dict, List, Tuple

from triton import knobs

from kiln._plugin import identity, own
from kiln._plugin.attempt import attempt
from kiln._plugin.manifest import manifest_of
from kiln._plugin.service import Declined, service
from kiln._plugin.settings import Settings
from kiln._report import counters

_FILE = "library"
_TIMEOUT_S = 10.0
# Variables that compilers and linkers read. Nix's linker is a script, and reads those of NIX_.
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_RUN_PATH", "LDEMULATION",
              "SOURCE_DATE_EPOCH", "CCC_OVERRIDE_OPTIONS", "NIX_LDFLAGS_AFTER", "NIX_DONT_SET_RPATH", "NIX_HARDENING_ENABLE",
              "NIX_SET_BUILD_ID", "NIX_STORE", "NIX_ENFORCE_PURITY")
# Programs and files that decide a library's bytes, beside those that the commands name by their paths (cc1, collect2, clang).
# Each compiler has some of them.
_PROGRAMS = ("as", "ld")
_FILES = ("crti.o", "crtn.o", "crtbeginS.o", "crtendS.o", "libgcc.a", "libgcc_s.so.1", "libc.so", "libc.so.6",
          "libc_nonshared.a", "liblto_plugin.so")
# Makes the compiler tell what it would run, with fixed names in the place of those of temporary files.
_BUILD = ("-###", "-save-temps", "-O3", "-shared", "-fPIC", "-x", "c", "-", "-o", "library.so")
_COMMAND = re.compile(r'^ "?(/[^" ]+)', re.MULTILINE)  # in what _BUILD prints
_INCLUDE = re.compile(rb"^\s*#\s*include\b.*$", re.MULTILINE)


class _Unknown(Exception):
    """The inputs of the build cannot be determined."""


_FORESEEN = (Declined, _Unknown)


def get_or_build(settings: Settings, build: Callable[..., str], *arguments: Any, **more: Any) -> str:
    """The path of the library for these arguments of `build`, Triton's function that runs the compiler. Any failure of Kiln's
    leaves the build to Triton."""
    key, path = _find(settings, arguments, more)
    if path:
        counters().add(builds_spared=1)
        return path
    path = build(*arguments, **more)
    if key:
        _keep(settings, key, path)
    return path


def _find(settings: Settings, arguments: Tuple[Any, ...], more: Dict[str, Any]) -> Tuple[bytes, str]:
    """The library's key (b"" if it has none), and its path ("" if the daemon does not have it)."""
    key = b""
    with attempt("to look for a library", _FORESEEN):
        name, source, folder, *rest = arguments
        if manifest_of(settings) is None:
            service(settings).prepare()  # before the compiler is looked at
        key = _key(name, source, folder, rest, more)
        found = _ask(settings, key)
        if found and _FILE in found:
            path = os.path.join(folder, name + sysconfig.get_config_var("EXT_SUFFIX"))
            with open(path, "wb") as file:
                file.write(found[_FILE])
            _record(settings, key, found[_FILE])
            return key, path
    return key, ""


def _ask(settings: Settings, key: bytes) -> "Dict[str, bytes] | None":
    started = time.monotonic()
    try:
        return service(settings).get_own(key)
    finally:
        counters().add(time.monotonic() - started)


def _keep(settings: Settings, key: bytes, path: str) -> None:
    with attempt("to keep a library", _FORESEEN):
        with open(path, "rb") as file:
            content = file.read(own.BYTES_MAX + 1)
        if len(content) <= own.BYTES_MAX:
            _record(settings, key, content)
            service(settings).put_own(key, {_FILE: content})


def _record(settings: Settings, key: bytes, content: bytes) -> None:
    """A library that was found, too: the node that is warmed may not have it."""
    if (manifest := manifest_of(settings)) is not None:
        manifest.add_own(key, {_FILE: content})


# --- What decides a library ------------------------------------------------------------------------------------------


def _key(name: str, path: str, folder: str, rest: List[Any], more: Dict[str, Any]) -> bytes:
    library_dirs, include_dirs, libraries, *others = rest
    if knobs.build.impl is not None or more.get("language", "c") != "c" or not path.endswith(".c"):
        raise _Unknown("it is not built by the C compiler")
    with open(path, "rb") as file:
        source = file.read()
    includes = tuple(include_dirs) + (_python_headers(), *sorted(knobs.build.backend_dirs))
    beside = os.path.dirname(path)
    if beside != folder:  # the folder holds nothing but the source
        includes = (beside, *includes)
    lines = b"\n".join(_INCLUDE.findall(source)) + b"\n"
    variables = tuple((variable, os.environ.get(variable)) for variable in _VARIABLES)
    environment = tuple(sorted(os.environ.items()))
    made_with = [_made_with(compiler, lines, includes, variables, _commands(compiler, environment)) for compiler in _compilers()]
    return own.key_of(
        "library", name=name, source=hashlib.sha256(source).hexdigest(), suffix=sysconfig.get_config_var("EXT_SUFFIX"),
        toolchain=identity.toolchain_fingerprint(), machine=[platform.machine(), platform.system()], python=sys.version,
        made_with=made_with, include_dirs=includes, library_dirs=library_dirs, others=repr((others, sorted(more.items()))),
        libraries=[_library(library, library_dirs) for library in libraries], variables=variables)


def _compilers() -> List[str]:
    """The compilers that Triton may take; each version of Triton chooses in its own way."""
    named = os.environ.get("CC")
    found = [named] if named else [path for path in map(shutil.which, ("gcc", "clang")) if path]
    if not found or named != _first_named():
        raise _Unknown("there is no compiler, or another one than at first")
    return found


@functools.lru_cache(maxsize=None)
def _first_named() -> "str | None":
    """The first value of CC: later versions of Triton read it once."""
    return os.environ.get("CC")


def _python_headers() -> str:
    scheme = sysconfig.get_default_scheme()
    return sysconfig.get_paths(scheme="posix_prefix" if scheme == "posix_local" else scheme)["include"]


def _library(name: str, directories: List[str]) -> Tuple[str, str]:
    for directory in directories:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            return name, identity.file_digest(os.path.realpath(path))
    return name, ""  # in the compiler's own folders


@functools.lru_cache(maxsize=64)
def _made_with(compiler: str, include_lines: bytes, include_dirs: Tuple[str, ...], _variables: Tuple[Any, ...], commands: str) -> Dict[str, Any]:
    """The compiler, what it runs, and every file that it reads for a source with these include lines. _Unknown."""
    flags = [f"-I{directory}" for directory in include_dirs if directory]
    headers = _run([compiler, "-M", "-MT", "it", "-x", "c", "-", *flags], include_lines)
    files = {path: identity.file_digest(path) for path in headers.replace("\\\n", " ").split()[1:] if path != "-"}
    for path in (*_parts_of(compiler), *_COMMAND.findall(commands)):
        files[path] = identity.file_digest(os.path.realpath(path))
    return {"commands": commands, "files": sorted(files.items())}


@functools.lru_cache(maxsize=16)
def _commands(compiler: str, _environment: Tuple[Tuple[str, str], ...]) -> str:
    """The compiler's version, and what it runs for a library: a wrapper may read any variable."""
    # Clang names the current directory.
    return _run([os.path.abspath(_path_of(compiler)), *_BUILD], errors=subprocess.STDOUT, folder="/")


@functools.lru_cache(maxsize=None)
def _parts_of(compiler: str) -> Tuple[str, ...]:
    """The compiler's own path, then the paths of the programs and files that it uses, as far as they exist."""
    path = _path_of(compiler)
    directories = dict(line.split(": =", 1) for line in _run([path, "-print-search-dirs"]).splitlines() if ": =" in line)
    programs = [shutil.which(name, path=directories.get("programs", "")) or shutil.which(name) for name in _PROGRAMS]
    files = [_first_of(directories.get("libraries", ""), name) for name in _FILES]
    return (path, *(file for file in programs + files if file))


def _path_of(compiler: str) -> str:
    path = shutil.which(compiler)
    if path is None:
        raise _Unknown(f"there is no {compiler}")
    return path


def _first_of(directories: str, name: str) -> "str | None":
    paths = (os.path.join(directory, name) for directory in directories.split(":") if directory)
    return next((path for path in paths if os.path.isfile(path)), None)


def _run(command: List[str], given: bytes = b"", errors: int = subprocess.DEVNULL, folder: "str | None" = None) -> str:
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, stderr=errors, timeout=_TIMEOUT_S, check=False, cwd=folder)
    if done.returncode != 0:
        raise _Unknown(f"{' '.join(command[:2])} failed")
    return done.stdout.decode(errors="surrogateescape")
