"""Programs that tests run."""

import os
import subprocess


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
