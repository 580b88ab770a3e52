"""The committed table of ONNX's node tests: what each gives. To write it anew, after a build:

    PYTHONPATH=tests/testing:build/dev/python $(tests/python_environment) -m onnx_nodes.table
"""

import pathlib
import tempfile

from onnx_nodes.cases import node_tests, segments
from onnx_nodes.compilers import COMPILERS
from places import ROOT

PATH = ROOT / "tests" / "python" / "graph" / "onnx_nodes.txt"
_UNSUPPORTED = "unsupported: "
_NOT_BY = "; not by "
# Two units in the last place, as ONNX's runner has for bf16. Attention in tiles multiplies probabilities of f16, as flash attention does. The
# test's expected numbers are computed in f16: two of 192 are a unit from every compiler's, which is 0.0012 of them.
_F16_RTOL = {"triton": 2**-9, "test_attention_4d_causal_fp16_expanded": 2**-9}


def verdicts(compiler, planned, folder):
    """By name: "" where the results are right, "wrong: ..." where not, else why there are none."""
    found = {}
    for (name, segment), outputs in zip(planned.items(), COMPILERS[compiler](list(planned.values()), folder), strict=True):
        wrong = "" if isinstance(outputs, str) else segment.difference(outputs, _F16_RTOL.get(compiler, _F16_RTOL.get(name, 0)))
        found[name] = outputs if isinstance(outputs, str) else wrong and f"wrong: {wrong}"
    return found


def read():
    """The rows, by name."""
    return dict(line.split(" ", 1) for line in PATH.read_text().splitlines())


def is_planned(row):
    return not row.startswith(_UNSUPPORTED)


def expected(row, compiler):
    """What the row says of a compiler, as verdicts() does."""
    for part in row.split(_NOT_BY)[1:]:
        name, reason = part.split(": ", 1)
        if name == compiler:
            return reason
    return ""


def unsupported(reason):
    return _UNSUPPORTED + reason


def main():
    cases = node_tests()
    planned, reasons = segments(cases.values())
    rows = {name: unsupported(reason) for name, reason in reasons.items()} | dict.fromkeys(planned, "passed")
    for compiler in COMPILERS:
        with tempfile.TemporaryDirectory() as folder:
            found = verdicts(compiler, planned, pathlib.Path(folder))
        for name, reason in found.items():
            if reason and compiler == "interpreter":
                rows[name] = reason if reason.startswith("wrong") else unsupported(reason)
                del planned[name]
            elif reason:
                rows[name] += f"{_NOT_BY}{compiler}: {reason}"
    PATH.write_text("".join(f"{name} {rows[name]}\n" for name in sorted(cases)))


if __name__ == "__main__":
    main()
