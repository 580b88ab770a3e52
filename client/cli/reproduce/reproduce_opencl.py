#!/usr/bin/env python3
"""Compiles the kernel beside it as kilnd did, without kilnd. Written by `kiln reproduce`.

Any Python 3 runs it, no GPU is needed. Its argument says where the compiler is that expected.json names:

    python3 reproduce.py [DIRECTORY]    kernel.cl: what has clang-15, llvm-spirv-15 and spirv-val, by default /usr/bin

The module ends up in out/, beside it. Exit status: 0 as expected, 1 otherwise, 2 where it could not be tried.
"""

import glob
import hashlib
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from common import make_out, parse_arguments, read, refuse  # noqa: E402

# What other toolchains call otherwise.
NAMES = {"disable-warnings": "no-warnings"}


class Refused(Exception):
    """A program does not take the source."""


def spelled(name, value):
    """The arguments for one option."""
    dashes, name = ("-" if name.startswith("cl-") else "--"), NAMES.get(name, name)
    if isinstance(value, bool):
        return [f"{dashes}{name}"] if value else []
    return [f"{dashes}{name}={item}" for item in (value if isinstance(value, list) else [value])]


def write_headers(headers):
    """The headers of the request, as if they lay in /headers."""
    roots = []
    for number, name in enumerate(sorted(headers)):
        with open(f"out/header-{number}", "wb") as file:
            file.write(headers[name].encode())
        roots.append({"type": "file", "name": f"/headers/{name}", "external-contents": f"header-{number}"})
    with open("out/headers.json", "w", encoding="utf-8") as file:
        json.dump({"version": 0, "use-external-names": False, "roots": roots}, file)


def run(directory, *command):
    program = os.path.join(directory, command[0])
    done = subprocess.run([program, *command[1:]], cwd="out", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    if done.returncode != 0:
        raise Refused(f"{command[0]} ended with {done.returncode}: {done.stdout}")


def make(request, directory):
    options, version = dict(request.get("options", {})), request["target"].split(":")[1]
    options.pop("entry", None)
    write_headers(request.get("headers", {}))
    place = os.path.dirname(os.path.realpath(os.path.join(directory, "clang-15")))
    resources = sorted(glob.glob(os.path.join(place, "../lib/clang/*/include/opencl-c-base.h")))
    if not resources:
        refuse(f"no clang-15 with its headers is in {directory}: install clang-15, llvm-spirv-15 and spirv-tools")
    run(directory, "clang-15", "-c", "-target", "spirv64", "-x", "cl", "-emit-llvm",
        *([] if "cl-opt-disable" in options else ["-O2"]), "-cl-std=CL2.0", "-Xclang", "-disable-llvm-passes",
        "-fno-discard-value-names",
        f"-resource-dir={os.path.realpath(os.path.join(resources[0], '../..'))}", "-nostdlibinc", "-ivfsoverlay", "headers.json",
        "-I/headers", "-Wno-builtin-macro-redefined",
        *(f'-D{name}="redacted"' for name in ("__DATE__", "__TIME__", "__TIMESTAMP__")), "-fno-crash-diagnostics",
        *(word for name in sorted(options) for word in spelled(name, options[name])), "kernel.cl", "-o", "kernel.bc")
    run(directory, "llvm-spirv-15", f"--spirv-max-version={version}", "kernel.bc", "-o", "kernel.spv")
    run(directory, "spirv-val", "--target-env", f"spv{version}", "kernel.spv")
    with open("out/kernel.spv", "rb") as file:
        return file.read()


def main():
    expected, request = read("expected.json"), read("request.jsonl")
    directory = os.path.abspath(parse_arguments(__doc__, directory="?").directory or "/usr/bin")
    make_out("kernel.cl")
    try:
        module = make(request, directory)
    except Refused as error:
        print(f"it does not compile: {error}")
        return 0 if "failure" in expected else 1
    if "stages" not in expected:
        print("it compiles")
        return 1
    equal = hashlib.sha256(module).hexdigest() == expected["stages"]["spv"]
    print(f"spv: {len(module)} bytes, {'as stored' if equal else 'NOT as stored'}")
    return 0 if equal else 1


try:
    sys.exit(main())
except OSError as error:
    refuse(error)
