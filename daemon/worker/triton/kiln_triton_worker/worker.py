"""A worker's process: from the fork into its jail, then a compile."""

import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
import traceback

from kiln_triton_worker.diagnosis import classify, is_tainted
from kiln_triton_worker.failure import Failure
from kiln_triton_worker.frames import FRAME_READY, FRAME_RESULT, read_frame, write_frame
from kiln_triton_worker.jail import Confinement
from kiln_triton_worker.libc import die_with, do_not_randomize_programs
from kiln_triton_worker.limits import mount_work_directory, set_limits
from kiln_triton_worker.output import Output
from kiln_triton_worker.reply import compiled_reply, failed_reply
from kiln_triton_worker.seccomp import blind_programs
from kiln_triton_worker.usage import elapsed_micros, taken_so_far


def run_worker(compiler, heap, control, job_fd, output_fd, message, zygote):
    """What a forked child does. Never returns."""
    try:
        heap.enter()
        os.setpgid(0, 0)
        die_with(zygote, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        control.close()
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        os.close(output_fd)
        job = socket.socket(fileno=job_fd)
        worker = Worker(compiler, job, message)
        write_frame(job, FRAME_READY, 0, {"jail_problems": worker.confine()})
        worker.serve()
        os._exit(0)
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(1)


class Worker:
    """Compiles what comes in on a job socket."""

    def __init__(self, compiler, job, message):
        self._compiler = compiler
        self._job = job
        self._message = message
        self._hides_files = False

    def confine(self):
        """What of it failed, in words."""
        directory = self._message["directory"]
        problems = mount_work_directory(directory, self._message["limits"], (self._message["jail"] or {}).get("view"))
        os.chdir(directory)
        for name in ("HOME", "TMPDIR", "TRITON_CACHE_DIR"):
            os.environ[name] = directory
        tempfile.tempdir = None
        os.umask(0o077)
        do_not_randomize_programs()
        blind_programs()
        problems += set_limits(self._message["limits"])
        if self._message["jail"] is not None:
            confinement = Confinement(self._message["jail"])
            problems += confinement.enter()
            self._hides_files = confinement.hides_files
        return problems

    def serve(self):
        """Until the daemon ends this process, after its first answer, or closes the socket."""
        while frame := read_frame(self._job):
            self._compile(*frame)

    def _compile(self, identifier, request, source):
        before = taken_so_far()
        started = time.perf_counter_ns()
        output = Output()
        try:
            self._check_surroundings(request)
            reply, blobs = compiled_reply(*self._compiler.compile(request, source))
        except (Failure, OSError, MemoryError) as error:
            reply, blobs = failed_reply(classify(error, "parse", output))
        if is_tainted(output.text()):
            reply["outcome"] = "crashed"
        reply["usage"] = {name: taken - before[name] for name, taken in taken_so_far().items()}
        reply["usage"]["wall_micros"] = elapsed_micros(started)
        write_frame(self._job, FRAME_RESULT, identifier, reply, blobs)

    def _check_surroundings(self, request):
        """Failure where a source could read files that are none of its business.

        What a module for AMD says in inline assembly goes through LLVM's assembler, which has macros, and directives that include
        files. In PTX there are none.
        """
        if request["backend"] == "hip" and not self._hides_files:
            raise Failure("failed_precondition", "options", "AMD code can include any file of this machine (inline assembly), so it "
                          "compiles in a jail only, and this worker is in none that hides files; kiln doctor says why",
                          deterministic=False)
