"""A process that compiles with Triton under a toolchain's own Python, with or without Kiln's plug-in."""

import json
import os
import pathlib
import shutil
import site
import subprocess

from places import JAXES, KERNELS, PACKAGE

_PROGRAM = pathlib.Path(__file__).parent / "jobs" / "triton_job.py"
_COUNTING_COMPILER = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    if (strcmp(arguments[i], "-###") == 0) break;  // it only tells what it would run
    if (strcmp(arguments[i], "-shared") != 0) continue;
    FILE* const file = fopen("FILE_OF_BUILDS", "a");
    fputs("built\\n", file);
    fclose(file);
  }
  arguments[0] = "gcc";  // where it looks for its parts
  return execvp(arguments[0], arguments);
}
"""


class Job:
    """Runs for as long as a `with` block lasts. Its folder holds the sources, Triton's cache, a home.

    python: the toolchain's. root: the daemon's; None: no plug-in. Every job of one folder's name has its sources at the same
    paths, so what Triton makes of them is the same. within: what its command begins with, such as as_user(uid). Triton's key for itself is computed
    once for all jobs, but where `environment` has an XDG_CACHE_HOME.
    """

    def __init__(self, folder, python, root=None, cache="cache", within=(), **environment):
        self.folder = folder
        self.cache = folder / cache
        self._python = [*within, python]
        self._keys = [] if "XDG_CACHE_HOME" in environment else [folder.parent / "triton-keys"]
        plugin = {} if root is None else {"TRITON_CACHE_MANAGER": "kiln.triton:CacheManager", "KILN_ROOT": str(root)}
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ},
            # What is remembered of the toolchains serves all the jobs of a run.
            "HOME": str(folder), "XDG_CACHE_HOME": str(folder.parent / "cache"), "TRITON_CACHE_DIR": str(self.cache), **package_environment(), **plugin, **environment,
        }

    def __enter__(self):
        source = self.folder / "source"
        shutil.copytree(KERNELS, source, ignore=shutil.ignore_patterns("__pycache__"))
        home = self.folder.stat()
        os.chown(source, home.st_uid, home.st_gid)  # the job removes it
        self._log = open(self.folder / "job.log", "ab")
        self.process = subprocess.Popen(
            [*self._python, "-B", _PROGRAM, self.folder, *self._keys], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._log, text=True)
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()
            self._log.close()
        assert code == 0 or exception[0] is not None, self.log

    @property
    def log(self):
        return (self.folder / "job.log").read_text()

    def start(self, name, /, **arguments):
        """Sends a command without waiting for its answer."""
        self.process.stdin.write(json.dumps({name: arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self):
        """Skips what Triton itself prints."""
        while True:
            line = self.process.stdout.readline()
            assert line, f"the job ended:\n{self.log}"
            if line.startswith('{"'):
                return json.loads(line)

    def run(self, name, /, **arguments):
        self.start(name, **arguments)
        return self.answer()

    def compile(self, kernel, target="cuda:90", **options):
        return self.run("compile", kernel=kernel, target=target, options=options)

    def report(self):
        return self.run("report")["report"]

    def files(self):
        """What Triton has left behind, by path beneath its cache; the paths inside groups made comparable."""
        return {
            str(path.relative_to(self.cache)): path.read_bytes().replace(bytes(self.cache), b"CACHE")
            for path in sorted(self.cache.rglob("*")) if path.is_file()
        }


def as_user(user):
    """The beginning of a command that runs as another user, as a daemon sees it. It may read everything: the toolchain may lie in
    root's home."""
    rights = "+dac_override,+dac_read_search"
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", f"--inh-caps={rights}", f"--ambient-caps={rights}"]


def package_environment(jax=""):
    """Finds the package as it was built, and gRPC and protobuf where this Python has them; and that version of JAX."""
    assert (PACKAGE / "kiln" / "v1" / "kernel_pb2.py").is_file(), f"no {PACKAGE}: build the target kiln_python"
    paths = [str(PACKAGE), *site.getsitepackages()]
    if jax:
        assert (JAXES / f"jax-{jax}").is_dir(), f"no JAX {jax} in {JAXES}: run tests/jax_environment {jax}"
        paths.append(str(JAXES / f"jax-{jax}"))
    return {"PYTHONPATH": os.pathsep.join(paths)}


# --- Jobs that build what Triton needs of the driver -----------------------------------------------------------------


def make_counting_compiler(folder):
    """A C compiler that notes what it builds, and a library to link with in the place of the driver's. Returns the folder."""
    subprocess.run(["gcc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", folder / "libcuda.so.1", "-x", "c", "/dev/null"], check=True)
    source = _COUNTING_COMPILER.replace("FILE_OF_BUILDS", str(folder / "built"))
    subprocess.run(["gcc", "-o", folder / "cc", "-x", "c", "-"], input=source, text=True, check=True)
    (folder / "built").write_text("")
    return folder


def building(folder, python, root, driver, compiler=None, **more):
    """A job that builds with the compiler and the library of the folder `driver`."""
    return Job(folder, python, root, CC=str(compiler or driver / "cc"), TRITON_LIBCUDA_PATH=str(driver), **more)


def build(driver, job, *signatures):
    """How often the compiler was run."""
    before = (driver / "built").read_text()
    for answer in (job.run("driver"), *(job.run("launcher", signature=signature) for signature in signatures)):
        assert "undefined symbol: cu" in answer["error"]
    return len((driver / "built").read_text()[len(before):].splitlines())
