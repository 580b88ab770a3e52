"""The programs that Triton assembles with: its own, or a ptxas that a request names."""

import contextlib
import os
import re
import subprocess
import sys

from kiln_triton_worker.elf import program_loader
from kiln_triton_worker.failure import Failure

PTXAS_VARIABLES = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")


class Assemblers:
    """Of one toolchain. Knows which ptxas Triton is using."""

    def __init__(self, toolchain):
        self._directory = toolchain.directory
        self._knobs = toolchain.knobs
        self._versions = {}
        self._named = None
        # ptxas -v says how many registers a kernel takes; with this knob Triton prints it.
        if hasattr(self._knobs, "dump_ptxas_log"):
            self._knobs.dump_ptxas_log = True

    def path(self, tool):
        return os.path.join(self._directory, "backends", "nvidia", "bin", tool)

    def programs(self):
        """What a worker starts, and what the kernel loads those with."""
        tools = [os.path.realpath(tool) for tool in (self.path("ptxas"), self.path("ptxas-blackwell"))]
        tools = [tool for tool in tools if os.access(tool, os.X_OK)]
        return sorted({*tools, *filter(None, map(program_loader, tools))})

    def version(self, tool):
        """"12.8.93", or "" where the toolchain has no such tool."""
        if tool not in self._versions:
            try:
                text = subprocess.run([self.path(tool), "--version"], capture_output=True, text=True, check=True)
                found = re.search(r"\bV(\d+(?:\.\d+)+)", text.stdout)
                self._versions[tool] = found.group(1) if found else "of unknown version"
            except (OSError, subprocess.CalledProcessError):
                self._versions[tool] = ""
        return self._versions[tool]

    def use_ptxas(self, named):
        """Has Triton assemble with the ptxas that a request names, from now on.

        Whether the file is the one whose digest is in the key, the daemon finds out when the compile is done: if nothing has been done
        to it since the digest was taken, it is. Looking here as well would save no more than a compile that is thrown away.
        """
        os.environ.update(dict.fromkeys(PTXAS_VARIABLES, named["path"]))
        # Triton remembers what it learned of its own while it was warmed: the PTX version that it takes, for one.
        module = sys.modules["triton.backends.nvidia.compiler"]
        for value in (*vars(module).values(), *vars(module.CUDABackend).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()
        # Where it does not find the program it falls back to its own without a word.
        if not self._takes_ptxas(named["path"]):
            raise Failure("internal", "cubin", f"Triton does not take {named['path']} as its ptxas", deterministic=False)
        self._named = named

    def describe(self, backend, architecture):
        """What turns assembly into a binary, for the record."""
        if backend != "cuda":
            return "lld (in libtriton)"
        if self._named is not None:
            return f"ptxas {self._named['version']}"
        tool = self._own_ptxas(int(architecture))
        return f"{tool} {self.version(tool)}"

    def _takes_ptxas(self, path):
        try:
            tools = [getattr(self._knobs, tool) for tool in ("ptxas", "ptxas_blackwell") if hasattr(self._knobs, tool)]
        except Exception:  # of starting it, to ask for its version
            return False
        return all(tool.path == path for tool in tools)

    def _own_ptxas(self, architecture):
        """Which of its two programs this Triton assembles with; from 3.9 on it is ptxas-blackwell for Hopper, too."""
        with contextlib.suppress(AttributeError, TypeError):  # before 3.6
            return os.path.basename(sys.modules["triton.backends.nvidia.compiler"].get_ptxas(architecture).path)
        return "ptxas-blackwell" if architecture >= 100 and os.path.exists(self.path("ptxas-blackwell")) else "ptxas"
