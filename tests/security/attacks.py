"""triton_worker.py with a compiler that a source has taken over: instead of compiling, it does what the source says.

What comes back is always a failed compile, whose message begins with "done" or with "refused".
"""

import ctypes
import fcntl
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "daemon" / "worker" / "triton"))
from kiln_triton_worker.compiler import Compiler
from kiln_triton_worker.failure import Failure
from kiln_triton_worker.libc import checked
from kiln_triton_worker.program import main
del sys.path[0]  # the jail lets through what is on it

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_TRACEME = 0
PTRACE_SEIZE = 0x4206
CLONE_NEWUSER = 0x10000000
UTIME_OMIT = (1 << 30) - 2


def call(name, *arguments):
    return checked(getattr(LIBC, name)(*arguments))


def read(path):
    with open(path, "rb") as file:
        return file.read(1) or b"empty"


def write(path):
    with open(path, "wb") as file:
        file.write(b"taken over")


def run(*command, kept=()):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, pass_fds=kept).returncode


def run_what_was_written_here():
    """A program of the job's own, which the toolchain does not know."""
    shutil.copyfile("/proc/self/exe" if os.access("/proc/self/exe", os.R_OK) else PTXAS, "mine")
    os.chmod("mine", 0o700)
    return run("./mine", "--version")


def run_from_memory():
    descriptor = os.memfd_create("mine", 0)
    os.write(descriptor, pathlib.Path(PTXAS).read_bytes())
    return run(f"/proc/self/fd/{descriptor}", "--version", kept=(descriptor,))


def leave_through_a_link():
    os.symlink("/etc/passwd", "link")
    return read("link")


def leave_through_a_hard_link(path):
    os.link(path, "hard-link")


def in_a_child(attack):
    """For what would change the worker itself."""
    child = os.fork()
    if child == 0:
        try:
            attack()
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        raise OSError(status, "in a child")


def utime_through_a_descriptor():
    """Of a file of the toolchain, which may be read. Neither time is to change: other tests use that toolchain."""
    with open(sys.modules["triton"].__file__, "rb") as file:
        call("futimens", file.fileno(), struct.pack("@4l", 0, UTIME_OMIT, 0, UTIME_OMIT))


def signal_through_a_file(victim):
    """A pipe tells its owner that there is something to read, by whatever signal: this one does nothing."""
    readable, writable = os.pipe()
    try:
        fcntl.fcntl(readable, fcntl.F_SETOWN, victim)
        fcntl.fcntl(readable, fcntl.F_SETSIG, signal.SIGWINCH)
        fcntl.fcntl(readable, fcntl.F_SETFL, os.O_ASYNC)
        os.write(writable, b"x")
    finally:
        os.close(readable)
        os.close(writable)


def breed():
    """Processes whose parents are gone. They end by themselves, should nobody end them."""
    for _ in range(60):
        if os.fork() == 0:
            try:
                if os.fork() != 0:
                    os._exit(0)
            except OSError:
                os._exit(1)  # its parent is refused the next time and says so
            signal.alarm(60)
            while True:
                signal.pause()
    signal.alarm(60)
    signal.pause()


def fill(size):
    with open("filling", "wb") as file:
        file.write(bytes(int(size)))


def seize(victim):
    in_a_child(lambda: call("ptrace", PTRACE_SEIZE, victim, None, None))


def mount_and_unmount():
    here = os.getcwd().encode()
    call("mount", b"none", here, b"tmpfs", 0, None)
    call("umount2", here, 0)


def assemble():
    """What a worker is for: run the assembler on a file of its own."""
    write("mine.txt")
    os.rename("mine.txt", "renamed.txt")
    os.unlink("renamed.txt")
    return run(PTXAS, "--version")


PTXAS = ""
ATTACKS = {
    "read": read,
    "read-environment": lambda: read(f"/proc/{os.getppid()}/environ"),
    "write": write,
    "list": os.listdir,
    "remove": os.unlink,
    "rename": lambda path: os.rename(path, path + ".moved"),
    "make-directory": os.mkdir,
    "chmod": lambda path: os.chmod(path, 0o777),
    "chown": lambda path: os.chown(path, os.getuid(), os.getgid()),
    "utime": os.utime,
    "utime-through-a-descriptor": utime_through_a_descriptor,
    "truncate": lambda path: os.truncate(path, 0),
    "set-attribute": lambda path: os.setxattr(path, "user.kiln", b"x"),
    "inet-socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "datagram-socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "unix-socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
    "netlink-socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "socket-pair": socket.socketpair,
    "shell": lambda: run("/bin/sh", "-c", "true"),
    "python": lambda: run(os.path.realpath(sys.executable), "--version"),
    "written-program": run_what_was_written_here,
    "memory-program": run_from_memory,
    "symbolic-link": leave_through_a_link,
    "hard-link": leave_through_a_hard_link,
    "ptrace": lambda: in_a_child(lambda: call("ptrace", PTRACE_TRACEME, 0, 0, 0)),
    "seize": lambda: seize(os.getppid()),
    "kill": lambda: os.kill(os.getppid(), 0),
    "kill-group": lambda: os.killpg(os.getpgid(os.getppid()), 0),
    "signal-through-a-file": lambda: signal_through_a_file(os.getppid()),
    "pin-another": lambda: os.sched_setaffinity(os.getppid(), os.sched_getaffinity(os.getppid())),
    "limit-another": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE),
    "breed": breed,
    "fill": fill,
    "mount": mount_and_unmount,
    "new-user-namespace": lambda: in_a_child(lambda: call("unshare", CLONE_NEWUSER)),
    "session": lambda: in_a_child(os.setsid),
    "raise-priority": lambda: call("setpriority", 0, 0, 0),
    "assemble": assemble,
}


class Attacker(Compiler):
    """Obeys sources that begin with "attack "."""

    def compile(self, request, source):
        global PTXAS
        order, *arguments = source.decode().split()
        if order != "attack":
            return super().compile(request, source)
        PTXAS = os.path.realpath(self.assemblers.path("ptxas"))
        attack, *arguments = arguments
        try:
            said = f"done: {ATTACKS[attack](*arguments)!r:.200}"
        except (OSError, subprocess.CalledProcessError) as error:
            said = f"refused: {error!r:.200}"
        raise Failure("invalid_argument", "parse", said)


if __name__ == "__main__":
    sys.exit(main(Attacker))
