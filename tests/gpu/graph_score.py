"""What the constants of the fusion score (CostModel, client/graph/plan/cost_model.h) are on this GPU, and whether the score chooses right.

A byte is what a copy of 512 MB takes for one. All times are of captured graphs, and of the same turn where one stands to another.
"""

import concurrent.futures
import dataclasses
import itertools
import statistics

import torch

import graph_segments
import kiln
from graph_kernels import Kernels
from graph_segments import F16, F32, I8

TURNS = 11
SECONDS_OF_A_TURN = 0.002
LAUNCHES_MAX = 100  # in a captured graph
COPIED = 1 << 26  # elements of f32
LOSS_MAX = 0.05  # the score may choose what is so much slower

# y of [ROWS, COLUMNS] elements, none of which is in memory. The difference between so many calls and so few is that of calls alone.
ROWS, COLUMNS = 1 << 16, 1024
CALLS = (8, 24)
# For each function what keeps its argument where no rare branch is taken; ptxas makes that a part of the operand.
FUNCTIONS = {"Reciprocal": "", "Div": "", "Sqrt": "Abs", "Rsqrt": "Abs", "Exp": "Neg", "Log": "Abs", "Sin": "", "Tanh": "", "Sigmoid": "",
             "Erf": "", "Softplus": "Neg", "Pow": "Abs"}
WITH_OPERAND = ("Add", "Div", "Pow")


def calls(op, count, before=""):
    """The largest of each row of x + y after so many calls."""
    names = itertools.chain.from_iterable([name for name in (before, op) if name] for _ in range(count))
    steps, last = [("Add", ["x", "y_"], "h", {})], "h"
    for number, name in enumerate(names):
        steps.append((name, [last, "y_"] if name in WITH_OPERAND else [last], f"h{number}", {}))
        last = f"h{number}"
    steps.append(("ReduceMax", [last], "y", {"axes": [1], "keepdims": 1}))
    return graph_segments.case_of(f"{count} {op}", {"x": (F32, [1, COLUMNS]), "y_": (F32, [ROWS, 1])}, (F32, [ROWS, 1]), steps,
                                  shape_between=[ROWS, COLUMNS])


def transposed_sum(count, kind, size=8192):
    names, square = [f"x{i}" for i in range(count)], [size, size]
    return graph_segments.case_of(f"transposed sum of {count}", {name: (kind, square) for name in names}, (kind, square),
                                  [("Sum", names, "h", {}), ("Transpose", ["h"], "y", {})])


def sums_behind(count, size=4096):
    """A product to which so many matrices of its size are added."""
    square = [size, size]
    steps, last = [("MatMul", ["a", "b"], "h" if count else "y", {})], "h"
    for i in range(count):
        made = "y" if i == count - 1 else f"h{i}"
        steps.append(("Add", [last, f"x{i}"], made, {}))
        last = made
    return graph_segments.case_of(f"{count} sums behind a product", {name: (F16, square) for name in ("a", "b", *(f"x{i}" for i in range(count)))},
                                  (F16, square), steps)


@dataclasses.dataclass(frozen=True)
class Factor:
    """One of a product's factors, computed by an operation."""

    op: str
    side: str
    rows: int
    depth: int
    columns: int
    kind: tuple = F16

    @property
    def name(self):
        return f"{self.op.lower()}-{self.side}-{self.kind[0]}-{self.rows}-{self.depth}-{self.columns}"

    @property
    def elements(self):
        return self.depth * (self.rows if self.side == "left" else self.columns)

    def case(self, computed):
        shapes = {"a": [self.rows, self.depth], "b": [self.depth, self.columns]}
        name = "a" if self.side == "left" else "b"
        kinds = dict.fromkeys("ab", self.kind)
        factors, steps = ["a", "b"], []
        if computed:
            kinds[name] = I8 if self.op == "Cast" else self.kind
            steps = [(self.op, [name], "h", {"to": self.kind[0]} if self.op == "Cast" else {})]
            factors["ab".index(name)] = "h"
        return graph_segments.case_of(self.name, {each: (kinds[each], shape) for each, shape in shapes.items()}, (self.kind, [self.rows, self.columns]),
                                      [*steps, ("MatMul", factors, "y", {})], shape_between=shapes[name])


FACTORS = [
    *(Factor(op, side, 4096, 4096, columns) for columns in (64, 256, 1024, 4096) for op in ("Relu", "Tanh") for side in ("left", "right")),
    *(Factor(op, "right", rows, 4096, 4096) for rows in (16, 256, 4096) for op in ("Cast", "Gelu")),
    *(Factor(op, "left", 1024, 1024, columns, F32) for columns in (64, 1024) for op in ("Relu", "Tanh")),
]


@dataclasses.dataclass(frozen=True)
class Window:
    """The image of a convolution, computed by an operation."""

    op: str
    channels: int = 128
    size: int = 28

    @property
    def name(self):
        return f"{self.op.lower()}-image-{self.channels}"

    @property
    def elements(self):
        return 32 * self.channels * self.size**2

    def case(self, computed):
        image, weight = [32, self.channels, self.size, self.size], [self.channels, self.channels, 3, 3]
        steps = [(self.op, ["x"], "h", {})] if computed else []
        return graph_segments.case_of(self.name, {"x": (F16, image), "weight": (F16, weight)}, (F16, image),
                                      [*steps, ("Conv", ["h" if computed else "x", "weight"], "y", {"pads": [1, 1, 1, 1]})])


WINDOWS = [Window("Relu"), Window("Tanh")]


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows that are computed by an operation, then normalized."""

    op: str
    normalization: str
    columns: int

    @property
    def name(self):
        return f"{self.op}-{self.normalization}-{self.columns}".lower()

    @property
    def elements(self):
        return (1 << 25) // self.columns * self.columns

    def case(self, computed):
        shape = [self.elements // self.columns, self.columns]
        scales = {"scale": (F16, shape[1:]), "bias": (F16, shape[1:])} if self.normalization == "LayerNormalization" else {}
        steps = [(self.op, ["x"], "h", {})] if computed else []
        return graph_segments.case_of(self.name, {"x": (F16, shape), **scales}, (F16, shape),
                                      [*steps, (self.normalization, ["h" if computed else "x", *scales], "y", {})])


# A block holds the shorter ones.
ROWS_COMPUTED = [Rows(op, normalization, columns) for columns in (4096, 40000) for op in ("Relu", "Gelu")
                 for normalization in ("Softmax", "LayerNormalization")]


def tiny():
    return graph_segments.case_of("a small kernel", {"x": (F32, [1024])}, (F32, [1024]), [("Neg", ["x"], "y", {})])


def seconds_of(graph):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000


def captured(call, runs):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(runs):
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph


class Times:
    """Of several calls and of a copy, in turns."""

    def __init__(self, launches):
        source, into = torch.randn(COPIED, device="cuda"), torch.empty(COPIED, device="cuda")
        graphs = {}
        for name, call in {**launches, "copy": lambda: into.copy_(source)}.items():
            call()
            torch.cuda.synchronize()
            runs = min(LAUNCHES_MAX, max(1, int(SECONDS_OF_A_TURN / seconds_of(captured(call, 1)))))
            graphs[name] = captured(call, runs), runs
        self._turns = [{name: seconds_of(graph) / runs for name, (graph, runs) in graphs.items()} for _ in range(TURNS)]

    def each(self, value):
        """`value` takes the times of a turn and the time of a byte."""
        return [value(turn, turn["copy"] / (COPIED * 8)) for turn in self._turns]

    def us(self, name):
        return f"{1e6 * statistics.median(turn[name] for turn in self._turns):.1f} us"


class Score:

    def __init__(self, client, program, target, say, measured):
        self._client, self._program, self._target, self._say, self._measured = client, program, target, say, measured

    def _built(self, wanted):
        """{name: (case, how)} as {name: Kernels}, all compiled."""
        with concurrent.futures.ThreadPoolExecutor() as pool:
            built = dict(zip(wanted, pool.map(lambda one: Kernels(self._program, self._target, one[0], "triton", **one[1]), wanted.values())))
        for _, answer in self._client.compile_many([request for kernels in built.values() for request in kernels.requests()]):
            if isinstance(answer, kiln.KilnError):
                raise answer
        return built

    def _times(self, cases, how=None):
        """Of cases that are one kernel each, by name."""
        built = self._built({name: (case, how or {"scores": False}) for name, case in cases.items()})
        if several := {name: len(kernels) for name, kernels in built.items() if len(kernels) != 1}:
            raise RuntimeError(f"not one kernel: {several}")
        return Times({name: kernels.load(self._client) for name, kernels in built.items()})

    def functions(self):
        few, many = CALLS
        everything = {"Add": "", **FUNCTIONS}
        times = self._times({(op, count): calls(op, count, before) for op, before in everything.items() for count in CALLS})

        def call_of(turn, op):
            return (turn[op, many] - turn[op, few]) / (many - few) / (ROWS * COLUMNS)

        self._measured("graph-score-operations-per-byte", times.each(lambda turn, byte: byte / call_of(turn, "Add")), None, "higher",
                       f"additions of f32 in the time of a byte; {1e-12 / statistics.median(times.each(lambda turn, _: call_of(turn, 'Add'))):.1f} "
                       f"T/s, {1e-12 / statistics.median(times.each(lambda _, byte: byte)):.2f} TB/s")
        costs = {}
        for op in FUNCTIONS:
            ratios = times.each(lambda turn, _, op=op: call_of(turn, op) / call_of(turn, "Add"))
            costs[op] = statistics.median(ratios)
            self._measured(f"graph-score-special-function-{op.lower()}", ratios, None, "lower", "an addition")
        self._measured("graph-score-special-function-cost", list(costs.values()), None, "lower", "an addition: the median of all functions")

    def launches(self):
        (kernels,) = self._built({"": (tiny(), {})}).values()
        launch = kernels.load(self._client)
        launch()
        torch.cuda.synchronize()
        counts = (100, 300)
        graphs = [captured(launch, count) for count in counts]
        times = Times({})
        seconds = [(seconds_of(graphs[1]) - seconds_of(graphs[0])) / (counts[1] - counts[0]) for _ in range(TURNS)]
        byte = statistics.median(times.each(lambda _, byte: byte))
        self._measured("graph-score-launch-mb", [each / byte / 1e6 for each in seconds], None, "lower",
                       f"MB in the time of a small kernel in a captured graph, {1e6 * statistics.median(seconds):.2f} us")

    def jumps(self):
        for kind, size in ((F32, 4), (F16, 2)):
            times = self._times({count: transposed_sum(count, kind) for count in (1, 3)})
            self._measured(f"graph-score-jump-bytes-{kind[0]}", times.each(lambda turn, byte: (turn[3] - turn[1]) / 2 / 8192**2 / byte), None, "lower",
                           f"bytes in the time of a load across rows; {times.us(1)} with one for an element, {times.us(3)} with 3")
            self._pair(f"graph-score-transposed-sum-{kind[0]}", transposed_sum(2, kind))
        self._pair("graph-score-transposed-sum-small", transposed_sum(2, F32, 64))

    def spills(self):
        times = self._times({count: sums_behind(count) for count in (0, 2, 4, 6, 8)})
        for few, many in ((0, 2), (2, 4), (4, 6), (6, 8)):
            self._measured(f"graph-score-operand-bytes-{many}", times.each(
                lambda turn, byte, few=few, many=many: (turn[many] - turn[few]) / (many - few) / 4096**2 / byte), None, "lower",
                           f"bytes in the time of an operand's element behind a product, its own 2 and what is spilled: {times.us(few)} with {few}, "
                           f"{times.us(many)} with {many}")
        for count in (2, 4, 6):
            self._pair(f"graph-score-sums-behind-{count}", sums_behind(count))

    def factors(self):
        for factor in (*FACTORS, *WINDOWS):
            self._pair(f"graph-score-{factor.name}", factor.case(True), alone=factor.case(False), elements=factor.elements)

    def normalizations(self):
        for rows in ROWS_COMPUTED:
            self._pair(f"graph-score-{rows.name}", rows.case(True), alone=rows.case(False), elements=rows.elements)

    def _pair(self, name, case, alone=None, elements=0):
        try:
            self._choice(name, case, alone, elements)
        except (RuntimeError, kiln.KilnError) as error:
            self._say({"what": name, "result": str(error)[:600], "ok": False})

    def _choice(self, name, case, alone, elements):
        """What the score does not choose, to what it chooses: everything fused, nothing fused, or something between."""
        wanted = {"fused": (case, {"scores": False}), "apart": (case, {"fuses": False}), "score": (case, {})}
        if alone:
            wanted["alone"] = (alone, {})
        built = self._built(wanted)
        chosen = "fused" if built["score"].text == built["fused"].text else "apart" if built["score"].text == built["apart"].text else "score"
        times = Times({way: kernels.load(self._client) for way, kernels in built.items() if way != "score" or chosen == "score"})
        text = f"the score's choice, {chosen}: {times.us('fused')} fused, {times.us('apart')} apart"
        if chosen == "score":
            text += f", {times.us('score')} by {len(built['score'])} kernels"
        if alone:
            cost = statistics.median(times.each(lambda turn, byte: (turn["fused"] - turn["alone"]) / elements / byte))
            text += f", {times.us('alone')} without; {cost:.2f} bytes for an element"
        others = [way for way in ("fused", "apart") if way != chosen]
        self._measured(name, times.each(lambda turn, _: min(turn[way] for way in others) / turn[chosen]), 1 - LOSS_MAX, "higher", text)
