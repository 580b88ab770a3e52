"""Reads what generic_form.py prints."""

import dataclasses
import functools
import re

_OPERATION = re.compile(
    r'(?:(?P<result>%\w+)(?::(?P<count>\d+))? = )?"(?P<name>[\w.]+)"\((?P<operands>[^)]*)\)'
    r"(?: <\{(?P<properties>.*?)\}>)?(?P<rest>.*)"
)


@dataclasses.dataclass(frozen=True)
class Type:
    element: str  # "f32", "i64"
    shape: tuple = ()
    is_pointer: bool = False


@dataclasses.dataclass
class Block:
    arguments: list
    operations: list


@dataclasses.dataclass
class Operation:
    name: str
    results: list
    operands: list
    properties: dict  # the text of each
    operand_types: tuple = ()
    result_types: tuple = ()
    regions: list = dataclasses.field(default_factory=list)  # of one block each


def split(text):
    """At the commas outside all brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ">)]}" and text[position - 1 : position + 1] != "->":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    if text[start:].strip():
        parts.append(text[start:].strip())
    return parts


@functools.cache
def parse_type(text):
    text = text.strip()
    if text.startswith("tensor<"):
        *shape, element = re.fullmatch(r"tensor<((?:\d+x)*)(.*)>", text).groups()
        inner = parse_type(element)
        return Type(inner.element, tuple(int(extent) for extent in shape[0].split("x")[:-1]), inner.is_pointer)
    if text.startswith("!tt.ptr<"):
        return Type(re.fullmatch(r"!tt\.ptr<(\w+)(?:, \d+)?>", text)[1], (), True)
    return Type(text)


@functools.cache
def _types(text):
    text = text.strip()
    return tuple(parse_type(part) for part in split(text[1:-1] if text.startswith("(") else text))


def _properties(text):
    pairs = (part.partition(" = ") for part in split(text or ""))
    return {key: value for key, _, value in pairs}


class _Reader:
    def __init__(self, text):
        self._lines = [line.strip() for line in text.splitlines() if line.strip()]
        self._at = 0

    def block(self):
        """Ends before the line that closes its region."""
        block = Block([], [])
        while self._at < len(self._lines) and not self._lines[self._at].startswith("}"):
            line = self._lines[self._at]
            if line.startswith("^"):
                arguments = line[line.index("(") + 1 : line.rindex(")")]
                block.arguments = [part.split(":")[0].strip() for part in split(arguments)]
                self._at += 1
            else:
                block.operations.append(self._operation())
        return block

    def _operation(self):
        match = _OPERATION.fullmatch(self._lines[self._at])
        if match is None:
            raise ValueError(f"no operation: {self._lines[self._at]}")
        self._at += 1
        count = int(match["count"] or 1)
        name = match["result"]
        results = [] if name is None else [name] if match["count"] is None else [f"{name}#{i}" for i in range(count)]
        operation = Operation(match["name"], results, split(match["operands"]), _properties(match["properties"]))
        rest = match["rest"]
        if rest.endswith("({"):
            while True:
                operation.regions.append(self.block())
                closing = self._lines[self._at]
                self._at += 1
                if closing != "}, {":
                    break
            rest = closing[2:]
        rest = re.fullmatch(r"(?: \{(?P<attributes>.*?)\})? : (?P<types>.*)", rest)
        operation.properties.update(_properties(rest["attributes"]))
        operands, results = re.fullmatch(r"(\(.*?\)) -> (.*)", rest["types"]).groups()
        operation.operand_types, operation.result_types = _types(operands), _types(results)
        return operation


def parse(text):
    """The operations of the module's only function, and the names of its arguments."""
    (module,) = _Reader(text).block().operations
    (function,) = module.regions[0].operations
    assert function.name == "tt.func", function.name
    (types,) = re.findall(r"function_type = (\(.*?\)) -> \(\)", text)
    return function.regions[0], _types(types)
