"""What a kernel's source reaches: the functions that Triton lowers for it, and every value that it finds in them.

Triton's key has the functions' texts and, of their globals, those that are tl.constexpr, as they were when the process first asked for
it. It leaves out attributes of modules, defaults of functions that are called, other globals where those are allowed, which of Triton's
own functions a name stands for, and where a text stands. All of these are looked up here as Triton's code generator looks them up, and
written down.

What cannot be written down is Unknown: an object, a class or a function of the program's may mean anything. So may a module that is
used otherwise than for one of its attributes. Nothing of the program's is called to find out.
"""

import ast
import builtins
import functools
import hashlib
import inspect
import json
import math
import os
import struct
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, NamedTuple, Tuple, Type

import triton
import triton.language as tl
from triton.compiler.compiler import ASTSource, IRSource
from triton.runtime import jit

_FUNCTIONS_MAX = 1024
_VALUES_MAX = 1 << 16
_TEXTS_MAX = 1024
_PACKAGE = triton.__path__[0] + os.sep
_JITCallable = getattr(jit, "JITCallable", jit.JITFunction)  # before 3.5 there is but one kind
# Those that Triton lowers, but for those that have blocks of their own.
_PLAIN_STATEMENTS = (ast.Assert, ast.Expr, ast.Pass, ast.Return)
# What of a syntax tree may have names in it: not operators and the like.
_WITH_NAMES = (ast.expr, ast.stmt, ast.comprehension, ast.keyword, ast.arguments, ast.arg, ast.withitem)


class Unknown(Exception):
    """Nobody can say what the source means; the text says why."""


def digest(source: Any) -> str:
    """64 hex digits, which differ where Triton would lower this source, one that its compile() has, to something else. Unknown; and
    whatever the program's own `repr` of a kernel raises."""
    if type(source) is IRSource:
        written = ["IR", source.ext, os.fspath(source.path), source.src]
    elif type(source) is ASTSource:
        written = ["AST", *_Walk().written(source)]
    else:
        raise Unknown("it is none of Triton's own kinds of source")
    return hashlib.sha256(json.dumps(written).encode()).hexdigest()


class _Walk:
    """Of one source, in an order that is always the same. What it gives is such as JSON has."""

    def __init__(self) -> None:
        self._functions: List[Any] = []
        self._numbers: Dict[int, int] = {}
        self._values = 0

    def written(self, source: Any) -> List[Any]:
        self._value(source.fn)
        arguments = [self._value(sorted(source.signature.items())), self._value(sorted(source.attrs.items())),
                     [[path, self._value(source.constants[path])] for path in sorted(source.constants)]]
        functions: List[Any] = []
        while len(functions) < len(self._functions):
            functions.append(self._function(self._functions[len(functions)]))
        return [source.name, _symbol(source), arguments, functions, [one._fn_name for one in self._functions[1:]]]

    def _function(self, function: Any) -> List[Any]:
        python = function.fn
        names = _names_in(function.src)
        parameters = [[one.name, one.annotation, self._value(one.default) if one.has_default else None] for one in function.params]
        return [
            python.__code__.co_filename, function.starting_line_number, getattr(function, "raw_src", []), function.src,
            bool(function.noinline), parameters, self._value(python.__defaults__), self._value(sorted((python.__kwdefaults__ or {}).items())),
            [[chain, self._found(value, chain[1:])] for chain, value in _looked_up(python, names.chains)],
            [[name, self._member(name)] for name in names.members],
        ]

    def _found(self, value: Any, attributes: Iterable[str]) -> Any:
        """What these attributes lead to. What follows a value that can be written down follows from it."""
        rest = list(attributes)
        while rest and type(value) is ModuleType:
            value = _of_module(value, rest.pop(0))
        if rest and (type(value) is FunctionType or issubclass(type(value), _JITCallable)):
            raise Unknown("it looks into a function")
        return self._value(value)

    def _member(self, name: str) -> Any:
        """What a tensor has by that name, which a program may have added."""
        member = inspect.getattr_static(tl.tensor, name, None)
        return self._value(member.fget if type(member) is property else member)

    def _value(self, value: Any) -> Any:
        self._values += 1
        if self._values > _VALUES_MAX:
            raise Unknown("it reaches too much")
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return [kind.__name__, value]
        if kind is float:
            return ["float", struct.pack(">d", value).hex()]
        if kind in (tuple, list):
            return [kind.__name__, [self._value(one) for one in value]]
        if kind is tl.constexpr:
            return ["constexpr", self._value(value.value)]
        if kind is tl.dtype:
            return ["dtype", value.name]
        if issubclass(kind, _JITCallable):
            return self._jit(value)
        if kind is FunctionType and _is_tritons(value.__globals__):
            return self._place("function", value)
        if kind is BuiltinFunctionType and value.__self__ is math:
            return ["math", value.__name__]
        if issubclass(kind, type) and _is_known_class(value):
            return ["class", value.__module__, value.__qualname__]
        raise Unknown(f"it reaches {'a module' if kind is ModuleType else f'a {kind.__module__}.{kind.__qualname__}'}")

    def _jit(self, function: Any) -> Any:
        if type(function.fn) is not FunctionType:
            raise Unknown("it reaches a kernel that is no function")
        if _is_tritons(function.fn.__globals__):
            return self._place("jit", function.fn)
        if type(function) is not jit.JITFunction:
            raise Unknown("it reaches a function that Triton calls")
        if id(function) not in self._numbers:
            if len(self._functions) == _FUNCTIONS_MAX:
                raise Unknown("it reaches too many functions")
            self._numbers[id(function)] = len(self._functions)
            self._functions.append(function)
        return ["function", self._numbers[id(function)]]

    def _place(self, what: str, function: FunctionType) -> Any:
        """Of one of Triton's own, whose text the toolchain's fingerprint has; but it may stand for another that it was given."""
        code = function.__code__
        return [what, code.co_filename, code.co_firstlineno, code.co_name,
                [self._value(cell.cell_contents) for cell in function.__closure__ or ()]]


class _Specialization(NamedTuple):
    """What a kernel's `repr` is given."""
    constants: Any
    signature: Any


def _symbol(source: Any) -> str:
    """The kernel's name in what is made of it."""
    if source.fn._repr is None:
        return str(source.fn._fn_name).rpartition(".")[2]
    constants = {source.fn.arg_names[path[0]]: value for path, value in source.constants.items() if len(path) == 1}
    return str(source.fn.repr(_Specialization(constants, source.signature)))


def _looked_up(function: FunctionType, chains: "Iterable[Tuple[str, ...]]") -> "Iterable[Tuple[Tuple[str, ...], Any]]":
    """Those of the chains that do not begin with what only Triton knows, or nobody, and what their first names stand for."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    for chain in chains:
        if chain[0] in cells:
            yield chain, cells[chain[0]].cell_contents
        elif chain[0] in function.__globals__:
            yield chain, function.__globals__[chain[0]]


def _of_module(module: ModuleType, name: str) -> Any:
    # Not by getattr: a module of the program's may make up what it is asked for.
    if name in vars(module):
        return vars(module)[name]
    if _is_tritons(vars(module)):
        return getattr(module, name)
    raise Unknown("it reaches what a module has not got")


def _is_tritons(namespace: Mapping[str, Any]) -> bool:
    """Whether it is that of a module whose file the toolchain's fingerprint covers."""
    return str(namespace.get("__file__")).startswith(_PACKAGE)


def _is_known_class(value: Any) -> bool:
    package, _, rest = f"{value.__module__}.{value.__qualname__}".partition(".")
    if package == "builtins":
        return vars(builtins).get(rest) is value
    module = sys.modules.get(value.__module__)
    if package != "triton" or module is not None and not str(getattr(module, "__file__", _PACKAGE)).startswith(_PACKAGE):
        return False
    return functools.reduce(lambda owner, name: getattr(owner, name, None), rest.split("."), triton) is value


# --- The names in a function's text ----------------------------------------------------------------------------------


class _Names(NamedTuple):
    """chains: what is not local, each with the attributes that follow it at once. members: the other attributes."""
    chains: "Tuple[Tuple[str, ...], ...]"
    members: Tuple[str, ...]


@functools.lru_cache(maxsize=_TEXTS_MAX)
def _names_in(text: str) -> _Names:
    function, = ast.parse(text).body
    if not isinstance(function, ast.FunctionDef):
        raise Unknown("it is no function")
    visitor = _Visitor()
    visitor.visit_kernel(function)
    return _Names(tuple(visitor.chains), tuple(visitor.members))


class _Visitor:
    """In the order in which Triton lowers a function. A name is local once it is certain to have been assigned; where it is not, as
    behind an `if` that assigns it, it may be either, and what is global under that name counts as well."""

    def __init__(self) -> None:
        self.chains: "Dict[Tuple[str, ...], None]" = {}
        self.members: Dict[str, None] = {}
        self._local: FrozenSet[str] = frozenset()
        self._annotated: FrozenSet[str] = frozenset()  # what Triton forgets behind an `if` in which it was assigned

    def visit_kernel(self, node: ast.FunctionDef) -> None:
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        self._local = frozenset(one.arg for one in named if one is not None)
        self._visit_all(node.body)

    def visit(self, node: ast.AST) -> None:
        visit = getattr(self, _VISITS.get(type(node), ""), None)
        if visit is not None:
            visit(node)
            return
        if isinstance(node, ast.stmt) and not isinstance(node, _PLAIN_STATEMENTS):
            raise Unknown(f"it has a statement that Triton does not lower ({type(node).__name__})")
        for name in node._fields:
            inside = getattr(node, name, None)
            self._visit_all(one for one in (inside if isinstance(inside, list) else (inside,)) if isinstance(one, _WITH_NAMES))

    def _visit_all(self, nodes: "Iterable[ast.AST]") -> None:
        for node in nodes:
            self.visit(node)

    def _assign(self, *targets: ast.AST) -> None:
        for target in targets:
            if isinstance(target, ast.Name):
                self._local |= {target.id}
            elif isinstance(target, (ast.Tuple, ast.List)):
                self._assign(*target.elts)
            elif isinstance(target, ast.Starred):
                self._assign(target.value)
            else:
                raise Unknown("it assigns to what is no name")

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        self._assign(*node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            before = self._local
            self._assign(node.target)
            self._annotated |= self._local - before

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._visit_name(node.target)
        self.visit(node.value)
        self._assign(node.target)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before = self._local
        self._visit_all(node.body)
        after, self._local = self._local, before
        self._visit_all(node.orelse)
        self._local = before | (self._local & after) - self._annotated

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        before = self._local
        self._assign(node.target)
        self._visit_all(node.body)
        self._local = before
        self._visit_all(node.orelse)
        self._local = before

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        before = self._local
        self._visit_all(node.body)
        self._local = before
        self._visit_all(node.orelse)
        self._local = before

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._assign(item.optional_vars)
        self._visit_all(node.body)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        before = self._local
        for generator in node.generators:
            self.visit(generator.iter)
            self._assign(generator.target)
            self._visit_all(generator.ifs)
        self.visit(node.elt)
        self._local = before

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)  # whether it is evaluated is not certain

    def _visit_name(self, node: ast.expr) -> None:
        attributes: List[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id not in self._local:
            chain = (node.id, *attributes)
            self.chains[chain] = None
            return
        self.members.update(dict.fromkeys(attributes))
        if not isinstance(node, ast.Name):
            self.visit(node)


_VISITS: "Dict[Type[ast.AST], str]" = {
    ast.Name: "_visit_name", ast.Attribute: "_visit_name",
    **{kind: f"visit_{kind.__name__}" for kind in (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.If, ast.For, ast.While, ast.With, ast.ListComp,
                                                  ast.NamedExpr)}
}
