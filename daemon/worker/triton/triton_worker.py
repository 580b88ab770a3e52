"""The program that kilnd starts with a toolchain's own Python: the package kiln_triton_worker, which lies beside it."""

import importlib.util
import os
import sys

PACKAGE = "kiln_triton_worker"


def load_package():
    """By its place, and not over sys.path: what lies beside this file has no say in what Triton imports."""
    directory = os.path.dirname(os.path.realpath(__file__))
    spec = importlib.util.spec_from_file_location(PACKAGE, os.path.join(directory, PACKAGE, "__init__.py"))
    sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[PACKAGE])


if __name__ == "__main__":
    load_package()
    from kiln_triton_worker.program import main
    sys.exit(main())
