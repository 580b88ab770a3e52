"""Compiles a plan of ten elementwise operations as an engine does, and prints how many seconds that took.

    graph_first_compiles.py COMPILER NUMBER...     KILN_ROOT names the daemon; each number makes another kernel, one after the other
"""

import json
import sys
import time

import kiln
import kiln.graph


def plan_of(compiler, number):
    segment = kiln.graph.Segment("chain")
    x = segment.input("x", "f32", [1 << 20])
    for step in range(10):
        x = segment.op("LeakyRelu", x, alpha=0.1 + step / 100 + number / 10_000)
    segment.output(x, "y")
    return segment.plan("cuda:90", forced=compiler)


client = kiln.Client()
seconds = []
for number in sys.argv[2:]:
    plan = plan_of(sys.argv[1], int(number))
    begin = time.perf_counter()
    failed = plan.compile(client)
    seconds.append(time.perf_counter() - begin)
    assert not failed, failed
print(json.dumps(seconds))
