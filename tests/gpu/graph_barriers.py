"""Kernels with grid barriers: right in replays of a captured graph, and their time beside a launch for each section."""

import json

import torch

import graph_segments
import kiln.graph

REPLAYS = 1000
RUNS = 10  # in a graph that is measured: its launch is not what counts
# Rows and columns; each of 8 sections moves 12 bytes for an element.
SIZES = ((16, 256), (64, 256), (128, 512), (256, 512), (256, 1024), (512, 1024), (1024, 1024), (4096, 1024))


class Bound:
    """A case on this GPU. Its workspace is full of noise."""

    def __init__(self, client, target, case, barriers):
        plan = kiln.graph.Segment.from_json(json.dumps(case.segment)).plan(target, keeps_small_sections=True, barriers=barriers)
        if failed := plan.compile(client):
            raise RuntimeError(f"{case.name}: {failed}")
        self.plan, self._bound, self._arrays = plan, plan.bind(device=0), {**case.inputs, "y": case.output}
        self.workspace = torch.randint(0, 256, (self._bound.workspace_bytes({}) + 1,), device="cuda", dtype=torch.uint8)

    def explain(self):
        return self._bound.explain().strip()

    def launch(self):
        self._bound.execute(self._arrays, workspace=self.workspace)

    def captured(self, runs):
        self.launch()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(runs):
                self.launch()
        return graph


def _wrong_replays(bound, case):
    """Of a graph, with other inputs and another workspace each time."""
    source = case.inputs["x"]
    inputs = [torch.randn_like(source) for _ in range(4)]
    expected = []
    for each in inputs:
        source.copy_(each)
        bound.launch()
        expected.append(case.output.clone())
    graph = bound.captured(1)
    wrong = 0
    for turn in range(REPLAYS):
        source.copy_(inputs[turn % 4])
        case.output.fill_(float("nan"))
        bound.workspace.random_(0, 256)
        graph.replay()
        wrong += not torch.equal(case.output, expected[turn % 4])
    return wrong


def run(client, target, say, check, compare):
    cases = [graph_segments.softmaxes(16, 256), graph_segments.softmaxes(4096, 1024), graph_segments.normalizations(999, 257),
             graph_segments.normalizations(64, 4096), graph_segments.normalizations(20000, 32)]
    for case in cases:
        bound = Bound(client, target, case, "always")
        say({"what": f"{case.name} with barriers", "result": bound.explain(), "ok": "one launch" in bound.explain()})
        if check(f"{case.name} with barriers", case, bound.launch):
            wrong = _wrong_replays(bound, case)
            say({"what": f"{case.name} with barriers: replays", "result": f"{REPLAYS - wrong} of {REPLAYS} right", "ok": not wrong})
    for rows, columns in SIZES:
        case = graph_segments.softmaxes(rows, columns)
        joined, apart = (Bound(client, target, case, barriers) for barriers in ("always", "never"))
        is_joined = "one kernel" in Bound(client, target, case, "score").plan.explain()
        chosen, other = (joined, apart) if is_joined else (apart, joined)
        compare(f"graph-grid-barrier-{rows * columns}", chosen.captured(RUNS).replay, other.captured(RUNS).replay, 1.0,
                f"{RUNS} times 8 sections of {rows * columns * 12 / 1e6:.2f} MB in a graph, the way that the score does not choose; it is "
                f"{'for' if is_joined else 'against'} one kernel")
