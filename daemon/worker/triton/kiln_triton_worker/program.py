"""The command line of the worker's program, in one of two modes:

  triton_worker.py --describe
      Prints one JSON object that says what this toolchain is and can do, and exits.

  triton_worker.py --zygote --control-fd N --parent PID [--backend NAME]…
      Imports triton, warms it for these backends, and then forks one worker process per request of the daemon.
"""

import argparse
import json
import os
import stat
import tempfile

from kiln_triton_worker.compiler import Compiler
from kiln_triton_worker.description import describe
from kiln_triton_worker.zygote import run_zygote


def main(make_compiler=Compiler):
    """The exit code."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = arguments.add_mutually_exclusive_group(required=True)
    mode.add_argument("--describe", action="store_true", help="print what this toolchain is and can do")
    mode.add_argument("--zygote", action="store_true", help="serve fork requests on the control socket")
    arguments.add_argument("--output-fd", type=int, default=1, help="where --describe prints to")
    arguments.add_argument("--control-fd", type=int, default=-1)
    arguments.add_argument("--parent", type=int, default=-1, help="pid of the daemon")
    arguments.add_argument("--backend", action="append", default=[], help="one that --describe named")
    chosen = arguments.parse_args()
    if chosen.zygote:
        if chosen.control_fd < 0 or not stat.S_ISSOCK(os.fstat(chosen.control_fd).st_mode):
            arguments.error("--zygote needs --control-fd with an open socket: it is the daemon that starts it")
        return run_zygote(make_compiler, chosen.control_fd, chosen.parent, chosen.backend)
    with tempfile.TemporaryDirectory(prefix="kiln-describe-") as directory:
        os.chdir(directory)
        text = json.dumps(describe(make_compiler())) + "\n"
        os.chdir("/")
    with open(chosen.output_fd, "w", closefd=False) as file:
        file.write(text)
    return 0
