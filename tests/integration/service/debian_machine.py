"""A Debian of its own, booted by systemd-nspawn: systemd as PID 1, with Kiln installed from the build tree."""

import ctypes
import fcntl
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from places import BINARIES

BUILD = BINARIES.parent
# Kept from one run to the next: making it takes a minute, and what a test changes lies above it.
TREE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kiln" / "test-debian"
BOOT_S = 60
COMMAND_S = 120
ENVIRONMENT = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8")
# nspawn's own filter does not know these, of which a worker makes its jail.
JAIL_CALLS = "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self"
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS = 0x20000


def why_not():
    """Why no machine can run here; "": one can."""
    if os.geteuid() != 0:
        return "only root can boot a machine"
    missing = [tool for tool in ("debootstrap", "systemd-nspawn") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} missing: install debootstrap and systemd-container"
    TREE.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{TREE}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _make_tree()


def _make_tree():
    if (TREE / "made").exists():
        return ""
    shutil.rmtree(TREE, ignore_errors=True)
    made = subprocess.run(["debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", "bookworm", TREE],
                          capture_output=True, text=True)
    if made.returncode != 0:
        return f"debootstrap failed: {made.stdout.strip().splitlines()[-1:]}"
    (TREE / "made").touch()
    return ""


class Machine:
    """Lives in `folder`, above TREE. close() leaves nothing of it."""

    def __init__(self, folder):
        self.root = folder / "root"
        self._console = folder / "console"
        self._nspawn = None
        self._init = 0
        for name in ("above", "work", "root"):
            (folder / name).mkdir()
        layers = f"lowerdir={TREE},upperdir={folder}/above,workdir={folder}/work"
        subprocess.run(["mount", "-t", "overlay", "kiln-test", "-o", layers, self.root], check=True)

    def install(self):
        """The programs, what they are linked with, and the units."""
        subprocess.run(["cmake", "--install", BUILD, "--component", "Unspecified", "--prefix", "/usr"], check=True, capture_output=True,
                       env={**os.environ, "DESTDIR": str(self.root), "CMAKE_INSTALL_ALWAYS": "1"})
        self._copy_libraries(*(BUILD / program for program in ("bin/kilnd", "bin/kiln", "lib/kiln/kiln-worker")))

    def _copy_libraries(self, *files):
        """What they are linked with."""
        linked = subprocess.run(["ldd", *files], check=True, capture_output=True, text=True).stdout
        for library in re.findall(r"=> (/\S+)", linked):
            there = self.root / library[1:]
            if not there.exists():
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(os.path.realpath(library), there)

    def install_python(self):
        """The same Debian's, from here. Returns the folder of its library, which the machine is to see."""
        python = Path("/usr/bin/python3").resolve()
        library = Path("/usr/lib") / python.name
        shutil.copy(python, self.root / "usr/bin/python3")
        self._copy_libraries(python, *(library / "lib-dynload").glob("*.so"))
        return library

    def boot(self, seen=(), homes=None):
        """seen: what it sees of this machine's files, as (path here, path there). homes: a folder that it may write, too."""
        (self.root / "root").chmod(0o755)  # what is seen may lie beneath it
        binds = [f"--bind-ro={here}:{there}" for here, there in seen] + ([f"--bind={homes}"] if homes else [])
        self._name = f"kiln-test-{os.getpid()}"
        with open(self._console, "wb") as console:
            self._nspawn = subprocess.Popen(
                ["systemd-nspawn", "-D", self.root, "-b", f"--machine={self._name}", "--register=no", "--keep-unit", "--private-network", "--console=pipe",
                 f"--system-call-filter={JAIL_CALLS}", *binds], stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        self.wait_for(self._find_init, "its first process")
        self.wait_for(lambda: self.run("systemctl", "is-system-running", "--wait", check=False).stdout.strip() in ("running", "degraded"),
                      "the end of booting")

    def _find_init(self):
        assert self._nspawn.poll() is None, self._console.read_text(errors="replace")
        for child in Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                self._init = int(child)
        return self._init

    def within(self, uid=0):
        """The beginning of a command that runs in the machine, with this process's environment."""
        user = [] if uid == 0 else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--init-groups"]
        return ["nsenter", f"--target={self._init}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", *user]

    def command(self, *arguments, uid=0):
        return [*self.within(uid), "env", "-i", *ENVIRONMENT, *map(str, arguments)]

    def run(self, *arguments, uid=0, check=True, **more):
        done = subprocess.run(self.command(*arguments, uid=uid), capture_output=True, text=True, timeout=COMMAND_S, **more)
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}\n{self.journal()}"
        return done

    def write(self, path, text, mode=0o644):
        """A file in the machine, also in what is mounted there."""
        self.run("sh", "-c", f"mkdir -p {os.path.dirname(path)} && cat >{path} && chmod {mode:o} {path}", input=text)

    def fork_into(self, body, uid):
        """The pid of a child of this process that runs `body` in the machine's file system, as that user and with their groups."""
        groups = [int(group) for group in self.run("id", "-G", uid).stdout.split()]
        namespace = os.open(f"/proc/{self._init}/ns/mnt", os.O_RDONLY)
        child = os.fork()
        if child != 0:
            os.close(namespace)
            return child
        status = 1
        try:
            assert LIBC.setns(namespace, CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
            os.setgroups(groups)
            os.setresgid(groups[0], groups[0], groups[0])
            os.setresuid(uid, uid, uid)
            status = body()
        finally:
            os._exit(status)

    def show(self, what):
        """A property of the service."""
        return self.run("systemctl", "show", "--value", f"--property={what}", "kilnd.service").stdout.strip()

    def processes(self):
        """What runs as part of the service, by the numbers that this process sees."""
        found = subprocess.run(["grep", "-lE", "/system.slice/kilnd.service(/|$)", *map(str, Path("/proc").glob("[0-9]*/cgroup"))],
                               capture_output=True, text=True).stdout
        return [int(line.split("/")[2]) for line in found.splitlines()]

    def kilnd(self):
        """The main process of the service, likewise."""
        main = self.show("MainPID")
        return next(pid for pid in self.processes() if self.status(pid)["NSpid"].split()[-1] == main)

    @staticmethod
    def status(pid):
        """Of one of these: what the kernel says, by name."""
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)

    def journal(self):
        return self.run("journalctl", "--no-pager", "-o", "cat", "-u", "kilnd*", check=False).stdout

    @staticmethod
    def wait_for(condition, what, seconds=BOOT_S):
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, f"waited in vain for {what}"
            time.sleep(0.05)

    def close(self):
        if self._nspawn is not None:
            self._nspawn.terminate()  # an orderly shutdown
            try:
                self._nspawn.wait(timeout=BOOT_S)
            except subprocess.TimeoutExpired:
                self._nspawn.kill()
                self._nspawn.wait()
            shutil.rmtree(f"/run/systemd/nspawn/propagate/{self._name}", ignore_errors=True)
        subprocess.run(["umount", self.root], check=True)
