"""The bundle's daemon."""

import json
import os
import subprocess
import sys
import time

START_SECONDS_MAX = 120


def acting_as(user):
    """For subprocess: that uid, with no group but its own."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


class Kilnd:
    """With this Python's environment as its toolchain."""

    def __init__(self, bundle, folder, user=None, *settings):
        """user: the uid that it runs as, its caller's where there is none. settings: of kilnd --set."""
        self._bundle, self._folder, self._user = bundle, folder, user
        self._settings = [word for setting in settings for word in ("--set", setting)]
        self.root = folder / "root"
        self.process = None

    def start(self):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder), "KILN_TOOLCHAIN_DIRECTORIES": sys.prefix}
        with open(self._folder / "kilnd.log", "ab") as log:
            self.process = subprocess.Popen([self._bundle / "bin" / "kilnd", "--root", self.root, *self._settings], env=environment, stdout=log,
                                            stderr=log, **acting_as(self._user))
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.stats() is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "kilnd.log").read_text()[-4000:])
            time.sleep(0.1)

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def kiln(self, *arguments, seconds=60, user=None):
        return subprocess.run([self._bundle / "bin" / "kiln", "--root", self.root, *arguments], capture_output=True, text=True,
                              timeout=seconds, check=False, **acting_as(self._user if user is None else user))

    def stats(self):
        done = self.kiln("stats", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def since(self, before):
        """What was counted since these stats()."""
        now = self.stats()
        return {name: now[name] - before[name] for name in ("compiled", "joined", "hits_memory", "hits_disk", "failed", "requests", "errors")
                if isinstance(now.get(name), int) and isinstance(before.get(name), int)}
