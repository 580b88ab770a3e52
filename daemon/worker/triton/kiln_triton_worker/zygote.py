"""The process that imports triton, warms it, and then forks one worker per request of the daemon.

daemon/worker/protocol.md says what goes over the control socket, who reaps whom, and what happens when a process dies. The zygote has
one thread and never touches a GPU driver, since both would break in a forked child. It checks this itself.
"""

import contextlib
import gc
import json
import os
import re
import signal
import socket
import traceback

from kiln_triton_worker.failure import one_line
from kiln_triton_worker.large_pages import FreshHeap, gather_heap, move_library
from kiln_triton_worker.libc import die_with, prctl
from kiln_triton_worker.warm_kernel import warm
from kiln_triton_worker.worker import run_worker

PR_SET_CHILD_SUBREAPER = 36
MSG_CMSG_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0x40000000)
CONTROL_PROTOCOL = 2
CONTROL_BYTES_MAX = 128 << 10
# Say which malloc this process has, and so its workers. The programs that they start have their own.
ALLOCATOR_VARIABLES = ("LD_PRELOAD", "MALLOC_CONF")


def check_forkable():
    """A forked child of a process with threads, or with a GPU driver in it, is broken."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"importing triton left {threads} threads running; a zygote must have one")
    with open("/proc/self/maps") as file:
        driver = re.search(r"/lib(?:cuda|amdhip64|nvidia-ml)\.so\S*", file.read())
    if driver:
        raise RuntimeError(f"importing triton loaded a GPU driver ({driver.group()}); a zygote must not")
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            opened = os.readlink(f"/proc/self/fd/{name}")
            if opened.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")):
                raise RuntimeError(f"importing triton opened {opened}; a zygote must not")


class Zygote:
    """Forks workers at the daemon's request, one request at a time."""

    def __init__(self, control, compiler, heap):
        self._control = control
        self._compiler = compiler
        self._heap = heap
        self._workers = set()

    def serve(self):
        while True:
            message, descriptors = self._receive()
            if message is None:
                self.kill_all()
                return
            try:
                reply = self._answer(message, descriptors)
            except Exception as error:
                reply = {"type": "error", "message": one_line(repr(error))}
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            self._control.send(json.dumps(reply).encode())

    def kill_all(self):
        for pid in self._workers:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    def _receive(self):
        data, descriptors, _, _ = socket.recv_fds(self._control, CONTROL_BYTES_MAX, 2, MSG_CMSG_CLOEXEC)
        return (json.loads(data) if data else None), descriptors

    def _answer(self, message, descriptors):
        if message["type"] == "fork":
            job, output = descriptors
            return {"type": "forked", "pid": self._fork(message, job, output)}
        if message["type"] == "reap":
            return {"type": "reaped", "pid": message["pid"], "status": self._reap(message["pid"])}
        raise ValueError(f"unknown request {message['type']!r}")

    def _fork(self, message, job, output):
        """The pid of a new worker, which is on its way into its jail."""
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            run_worker(self._compiler, self._heap, self._control, job, output, message, zygote)
        # In both processes, so that the group exists before anyone hears of the pid.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._workers.add(pid)
        return pid

    def _reap(self, pid):
        """The wait status of a worker that the daemon has killed; None if it is not dead."""
        if pid not in self._workers:
            raise ValueError(f"{pid} is not a worker")
        waited, status = os.waitpid(pid, os.WNOHANG)
        if not waited:
            return None
        self._workers.discard(pid)
        self._end_orphans()
        return status

    def _end_orphans(self):
        """Kills and reaps every child that is not a worker: what dead workers left behind."""
        # Again until there are none, since one may fork before it dies, but not for ever.
        for _ in range(100):
            orphans = [pid for pid in child_processes() if pid not in self._workers]
            if not orphans:
                return
            for pid in orphans:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


def child_processes():
    """Pids of this process's children, of which the only thread is the main one."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return []


def run_zygote(make_compiler, control_fd, parent, backends):
    """Until the daemon is gone. The exit code."""
    die_with(parent, signal.SIGTERM)
    for variable in ALLOCATOR_VARIABLES:
        os.environ.pop(variable, None)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    control = socket.socket(fileno=control_fd)
    control.set_inheritable(False)
    try:
        compiler = make_compiler()
        warmed = warm(compiler, backends)
        check_forkable()
        # Objects that live until the end need not be looked at by any child's collector, which would only copy their pages.
        gc.collect()
        gc.freeze()
        with contextlib.suppress(OSError):  # then forks map it page by page
            move_library(compiler.toolchain.library)
        zygote = Zygote(control, compiler, FreshHeap())
        with contextlib.suppress(OSError):  # then forks copy it entry by entry
            gather_heap()
    except Exception as error:
        traceback.print_exc()
        control.send(json.dumps({"type": "failed", "message": one_line(repr(error))}).encode())
        return 1

    def on_terminate(_signal, _frame):
        zygote.kill_all()
        os._exit(0)

    signal.signal(signal.SIGTERM, on_terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hello = {"type": "hello", "protocol": CONTROL_PROTOCOL, "version": compiler.toolchain.version, "warm": warmed,
             "programs": compiler.assemblers.programs(), "libraries": compiler.toolchain.libraries()}
    control.send(json.dumps(hello).encode())
    zygote.serve()
    return 0
