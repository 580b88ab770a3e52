"""Prints random segments for tests/gpu/graph_nodes_job.py: a JSON object a line, with what NumPy computes for each element of an output's
memory and how far it may be off. PTX templates can write half of them: those without loops."""

import json

import numpy as np

from random_segments.comparison import Tolerances
from random_segments.drawing import drawn

_COUNT = 90
_OPERATIONS_MAX = (4, 12, 30)


def main():
    for operations_max in _OPERATIONS_MAX:
        for number, segment in enumerate(drawn(_COUNT, operations_max)):
            tolerances, outputs = Tolerances(segment), []
            for tensor in segment.with_role("output"):
                wanted = tensor.memory().laid_out(tensor.array, 0)
                allowed = tensor.memory().laid_out(tolerances.allowed(tensor), np.inf)
                outputs.append({"name": tensor.name, "type": tensor.type, "numbers": wanted.tobytes().hex(), "allowed": allowed.tobytes().hex()})
            print(json.dumps({"name": f"{operations_max}-{number}", "request": segment.request(), "outputs": outputs}))


if __name__ == "__main__":
    main()
