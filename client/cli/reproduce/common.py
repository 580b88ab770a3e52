"""What the scripts of `kiln reproduce` share."""

import argparse
import hashlib
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def refuse(why):
    """Ends the program: the compile could not be tried."""
    print(f"reproduce.py: {why}", file=sys.stderr)
    sys.exit(2)


def parse_arguments(description, **counts):
    """The arguments of the command line, by name. `counts` has the nargs of each."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, count in counts.items():
        parser.add_argument(name, nargs=count, metavar=name.upper())
    return parser.parse_args()


def read(name):
    try:
        with open(os.path.join(HERE, name), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        refuse(f"{name} has to lie beside it, as `kiln reproduce` wrote it: {error}")


def make_out(source):
    """Makes out/ beside this file, with only the source in it. Changes to the directory of this file."""
    try:
        os.chdir(HERE)
        shutil.rmtree("out", ignore_errors=True)
        os.mkdir("out")
        shutil.copy(source, "out")
    except OSError as error:
        refuse(f"it cannot put {source} into {os.path.join(HERE, 'out')}: {error}")


def check_ptxas(path, digest, advice):
    """Ends the program unless the SHA-256 of this ptxas is `digest`."""
    try:
        with open(path, "rb") as file:
            found = hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        refuse(f"{path} cannot be read ({error.strerror}): {advice}")
    if found != digest:
        refuse(f"{path} is another ptxas, its SHA-256 is {found}: {advice}")


def continue_in_child():
    """Returns in a child process. The compiler may crash there; this process reports how the child ended."""
    child = os.fork()
    if child == 0:
        return
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        print(f"the compiler crashes: signal {os.WTERMSIG(status)}")
    sys.exit(0 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
