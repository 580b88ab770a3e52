"""Programs that tests run, and what bounds them."""

import contextlib
import os
import pathlib
import subprocess

import pytest


class CheckedProcess(subprocess.Popen):
    """Runs with nothing inherited that could change its results."""

    def __init__(self, command):
        super().__init__(
            list(map(str, command)),
            env={name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )

    def finish(self):
        """Its output. Fails the test where it failed."""
        output, _ = self.communicate()
        assert self.returncode == 0, output
        return output


class ControlGroup:
    """Bounds processes. limit: the name of the bound in version 1, in version 2. Skips the test where no group can be made."""

    def __init__(self, controller, limit, value):
        is_unified = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
        self.folder = pathlib.Path("/sys/fs/cgroup") / ("" if is_unified else controller) / f"kiln-test-{os.getpid()}"
        try:
            self.folder.mkdir()
            (self.folder / limit[is_unified]).write_text(str(value))
        except OSError as error:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            pytest.skip(f"no control group for {controller} can be made here: {error}")

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def remove(self):
        """Once its processes have ended or left."""
        for pid in (self.folder / "cgroup.procs").read_text().split():
            (self.folder.parent / "cgroup.procs").write_text(pid)
        self.folder.rmdir()


@contextlib.contextmanager
def bounded(pid, controller, limit, value):
    group = ControlGroup(controller, limit, value)
    try:
        group.add(pid)
        yield
    finally:
        group.remove()
