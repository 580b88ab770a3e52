"""Launches every example kernel through Triton and compares the results with PyTorch's.

    python kernels_job.py OUT.json

Writes {"kernels": what kernel_checks.run returns, "seconds": ..., "report": what Kiln did, or null}.
"""

import json
import pathlib
import sys
import time

import kernel_checks


def main():
    started = time.monotonic()
    results = kernel_checks.run(kernel_checks.by_triton)
    seconds = time.monotonic() - started
    report = None
    if "kiln.triton" in sys.modules:
        import kiln
        report = vars(kiln.report())
    pathlib.Path(sys.argv[1]).write_text(json.dumps({"kernels": results, "seconds": seconds, "report": report}))


if __name__ == "__main__":
    main()
