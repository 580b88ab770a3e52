"""Prints the node tests that Kiln plans, for tests/gpu/graph_nodes_job.py: a JSON object a line, with all bytes as memory has them."""

import json

import numpy as np

from onnx_nodes.cases import TYPES, node_tests, packed, segments


def main():
    planned, _ = segments(node_tests().values())
    for name, segment in sorted(planned.items()):
        outputs = []
        for output, wanted in zip(segment.outputs, segment.case.outputs, strict=True):
            array = np.asarray(wanted).astype(TYPES[output["type"]])
            outputs.append({"name": output["name"], "type": output["type"], "bytes": packed(array).hex()})
        print(json.dumps({"name": name, "request": segment.request(), "outputs": outputs, "rtol": segment.case.rtol, "atol": segment.case.atol}))


if __name__ == "__main__":
    main()
