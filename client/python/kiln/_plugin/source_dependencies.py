"""What a kernel's source reaches: the functions that Triton lowers for it, and every value that it finds in them.

Triton's key has the functions' texts and the first values of their tl.constexpr globals. It leaves out attributes of
modules, defaults of called functions, other globals where they are allowed, which of Triton's functions a name stands for,
and where a text stands. This module looks all of these up as Triton's code generator does, and writes them down.

A value that cannot be written down is Unknown: an object, class or function of the program may mean anything, and so may a
module that is used for more than its attributes. Nothing of the program's is called. docs/adr/0049 has the reasons.
"""

import ast
import builtins
import enum
import functools
import hashlib
import importlib
import itertools
import marshal
import math
import operator
import os
import struct
import sys
import threading
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple, Type, Union

import triton
import triton.language as tl
from triton.compiler.compiler import ASTSource, IRSource
from triton.runtime import jit

from kiln import _process
from kiln._plugin.attempt import attempt

_FUNCTIONS_MAX = 1024
_VALUES_MAX = 1 << 16
_TEXTS_MAX = 1024
_PACKAGE = triton.__path__[0] + os.sep
_JITCallable = getattr(jit, "JITCallable", jit.JITFunction)  # before 3.5 there is only one kind
# Statements that Triton lowers, except those with blocks of their own.
_PLAIN_STATEMENTS = (ast.Assert, ast.Expr, ast.Pass, ast.Return)
# Fields of a syntax tree without names.
_NAMELESS = ("ctx", "op", "ops", "kind", "type_comment")


# What a function of Triton's own has besides what every one has.
_OF_A_FUNCTION = frozenset({"__wrapped__", "__triton_builtin__"})
_OPERATORS = tuple(f"__{prefix}{name}__" for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and",
                                                      "or", "xor") for prefix in ("", "r", "i")) + (
    "__neg__", "__pos__", "__invert__", "__not__", "__bool__", "__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__", "__getitem__",
    "__setitem__", "__getattr__", "__getattribute__", "__iter__", "__next__", "__len__", "__contains__", "__call__", "__index__", "__enter__",
    "__exit__", "logical_and", "logical_or")

# What no program changes, other than by putting something else in its place. Of functions and lists _Members sees it.
_LASTING = (float, tuple, list, tl.dtype, FunctionType, BuiltinFunctionType, type)
_chained = itertools.chain.from_iterable
_Parts = Callable[[Any], Iterable[Any]]
# Things of Triton's that a program may change, with the parts that they had: by what tells the parts, and by id.
_Held = Dict[Tuple[_Parts, int], Tuple[Any, Tuple[Any, ...]]]


class Unknown(Exception):
    """The meaning of the source cannot be determined. The text is the reason."""


def digest(source: Any, options: Any, name_in_key: Callable[[str], str]) -> str:
    """64 hex digits that differ if Triton would lower this source with these options differently. name_in_key: what of the name of
    one of the program's files makes a difference. Raises Unknown, and whatever the program's own `repr` of a kernel raises."""
    walk = _Walk(_current_members(), name_in_key)
    if type(source) is IRSource:
        written = ["IR", source.ext, os.fspath(source.path), source.src]
    elif type(source) is ASTSource:
        written = ["AST", *walk.written(source)]
    else:
        raise Unknown("it is not one of Triton's own kinds of source")
    return _digest([*written, walk.written_options(options)])


def _digest(written: Any) -> str:
    # JSON takes ten times as long. From version 3 on equal values may have different bytes.
    return hashlib.sha256(marshal.dumps(written, 2)).hexdigest()


def written(value: Any) -> Any:
    """A value with its types, for JSON. Raises Unknown."""
    return _Walk(_current_members())._value(value)


class _Walk:
    """Walks one source in a fixed order. The results are values that marshal and JSON know."""

    def __init__(self, members: "_Members", name_in_key: Callable[[str], str] = str) -> None:
        self._members = members
        self._name_in_key = name_in_key
        self._functions: List[Any] = []
        self._numbers: Dict[int, int] = {}
        self._values = 0
        self._asked_for: Set[str] = set()  # names of all attributes
        self._added: Set[str] = set()  # attributes that the program has set on functions
        self.held: _Held = {}  # what was written of Triton's
        self._lasts = True  # what is written changes only with `held`

    def written(self, source: Any) -> List[Any]:
        self._value(source.fn)
        arguments = [self._value(sorted(source.signature.items())), self._value(sorted(source.attrs.items())),
                     [[path, self._value(source.constants[path])] for path in sorted(source.constants)]]
        functions: List[Any] = []
        while len(functions) < len(self._functions):
            functions.append(self._function(self._functions[len(functions)]))
        if self._asked_for & self._added:
            raise Unknown("it looks into a function")
        return [source.name, _symbol(source), arguments, functions, [_names_of(one) for one in self._functions[1:]], self._members_of(_OPERATORS)]

    def written_options(self, options: Any) -> List[Any]:
        """The options with their types. Triton's key has text, in which 1 and "1" are the same."""
        return [[name, self._value(value)] for name, value in sorted(vars(options).items())]

    def _function(self, function: Any) -> List[Any]:
        python = function.fn
        if getattr(function, "__globals__", python.__globals__) is not python.__globals__:
            raise Unknown("its text and its names are of two functions")
        names = _names_in(function.src)
        self._asked_for.update(names.members)
        parameters = [[one.name, one.annotation, self._value(one.default) if one.has_default else None] for one in function.params]
        return [
            self._name_in_key(python.__code__.co_filename), function.starting_line_number, getattr(function, "raw_src", []), function.src,
            bool(function.noinline), parameters, self._value(python.__defaults__), self._value(sorted((python.__kwdefaults__ or {}).items())),
            [[chain, self._found(value, chain[1:])] for chain, value in _looked_up(python, names.chains)],
            [[name, self._members_of((name,))] for name in names.members],
        ]

    def _found(self, value: Any, attributes: Iterable[str]) -> Any:
        """The value at the end of these attributes. Stops at a value that can be written down: the rest follows from it."""
        rest = list(attributes)
        while rest and type(value) is ModuleType:
            value = _of_module(value, rest.pop(0))
        if rest and type(value) is tl.constexpr:
            value = value.value
        if rest and (type(value) is FunctionType or issubclass(type(value), _JITCallable)):
            raise Unknown("it looks into a function")
        return self._value(value)

    def _members_of(self, names: Tuple[str, ...]) -> Any:
        """The members of these names of Triton's kinds of values. A program may have added them."""
        return self._once(names, lambda walk: [walk._member(name) for name in names])

    def _once(self, what: Any, write: "Callable[[_Walk], Any]") -> Any:
        """What is written of a thing of Triton's, which is the same for all kernels until the program changes it."""
        if what not in self._members.written:
            apart = _Walk(self._members, self._name_in_key)
            written = write(apart)
            if not apart._lasts:
                return write(self)
            for thing, parts in apart.held.items():  # as they were when a text was first written
                self._members.held.setdefault(thing, parts)
            self._members.written[what] = (_digest(written), frozenset(apart._added))
        hashed, added = self._members.written[what]
        self._added |= added
        return hashed

    def _member(self, name: str) -> Any:
        found: List[Any] = []
        for kind in _kinds_of_values():
            member = vars(kind).get(name)
            if member is not None:
                found.append([kind.__qualname__, self._value(_function_of(member))])
        for constant in _dtypes():
            if name in vars(constant):
                found.append([constant.name, self._value(vars(constant)[name])])
        return found

    def _value(self, value: Any) -> Any:
        self._values += 1
        if self._values > _VALUES_MAX:
            raise Unknown("it reaches too much")
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return [kind.__name__, value]
        if issubclass(kind, _JITCallable):
            return self._jit(value)
        self._lasts &= kind in _LASTING
        if kind is float:
            return ["float", struct.pack(">d", value).hex()]
        if kind is list:
            self._hold(_items_of, value)
        if kind in (tuple, list):
            return [kind.__name__, [self._value(one) for one in value]]
        if kind is tl.constexpr:
            return ["constexpr", self._value(value.value)]
        if kind is tl.dtype:
            return ["dtype", value.name]
        if kind is FunctionType and _is_tritons(value.__globals__):
            return self._once(id(value), lambda walk: walk._own_function(value))
        if kind is BuiltinFunctionType and value.__self__ is math:
            return ["math", value.__name__]
        if issubclass(kind, (enum.Enum, tl.PropagateNan)) and _is_known_class(kind):
            return ["enumerator", kind.__qualname__, value.name]
        if issubclass(kind, type) and _is_known_class(value):
            return ["class", value.__module__, value.__qualname__]
        raise Unknown(f"it reaches {'a module' if kind is ModuleType else f'a {kind.__module__}.{kind.__qualname__}'}")

    def _jit(self, function: Any) -> Any:
        if type(function.fn) is not FunctionType:
            raise Unknown("it reaches a kernel that is not a function")
        if _is_tritons(function.fn.__globals__):
            return self._once(id(function), lambda walk: walk._own_jit(function))
        self._lasts = False
        self._added.update(vars(function).keys() - vars(tl.cdiv).keys())
        if type(function) is not jit.JITFunction:
            raise Unknown("it reaches a function that Triton calls")
        if id(function) not in self._numbers:
            if len(self._functions) == _FUNCTIONS_MAX:
                raise Unknown("it reaches too many functions")
            self._numbers[id(function)] = len(self._functions)
            self._functions.append(function)
        return ["function", self._numbers[id(function)]]

    def _own_function(self, function: FunctionType) -> Any:
        self._added.update(vars(function).keys() - _OF_A_FUNCTION)
        return [self._place("function", function), self._behind(function)]

    def _own_jit(self, function: Any) -> Any:
        self._hold(_jit_parts_of, function)
        self._added.update(vars(function).keys() - vars(tl.cdiv).keys())
        return [self._place("jit", function.fn), type(function).__name__, bool(getattr(function, "noinline", False)),
                getattr(function, "src", "")]

    def _place(self, what: str, function: FunctionType) -> Any:
        """The place of one of Triton's own functions. The fingerprint covers its text, but it may wrap a function that it was given."""
        if function.__globals__.get("__name__") == "triton.language.target_info":
            raise Unknown("it asks for the device of the process, whatever it is compiled for")
        if function is tl.static_print:
            raise Unknown("it prints while it is lowered")
        self._hold(_code_of, function)
        self._hold(vars, function)
        for cell in function.__closure__ or ():
            self._hold(_content_of, cell)
        code = function.__code__
        if not code.co_filename.startswith((_PACKAGE, "<")):  # "<string>": of a dataclass
            raise Unknown("it reaches a function of Triton's that the program has changed")
        self._lasts &= function.__kwdefaults__ is None
        return [what, code.co_filename, code.co_firstlineno, code.co_name,
                [self._value(cell.cell_contents) for cell in function.__closure__ or ()],
                self._value(function.__defaults__), self._value(tuple(sorted((function.__kwdefaults__ or {}).items())))]

    def _behind(self, function: FunctionType) -> Any:
        """The function that Triton takes for a function that dispatches on the backend."""
        if function.__globals__.get("__name__") != "triton.language.extra.libdevice":
            return []
        self._hold(_behind, function)
        return [self._value(one) for one in _behind(function)]

    def _hold(self, parts_of: "_Parts", thing: Any) -> None:
        self.held[parts_of, id(thing)] = thing, tuple(parts_of(thing))


class _Members:
    """What Triton's kinds of values have by each name, and Triton's functions, written down once: most of it is the same for all
    kernels."""

    def __init__(self) -> None:
        self.written: "Dict[Any, Tuple[str, FrozenSet[str]]]" = {}  # and what the program has set on them
        self.held: _Held = {(parts_of, id(one)): (one, tuple(parts_of(one)))
                            for parts_of in (vars, _values_of) for one in (*_kinds_of_values(), *_dtypes())}
        self._checks: "Tuple[int, List[Tuple[Callable[[], Iterable[Any]], List[Any]]]]" = (0, [])  # of so many held things

    def are_current(self) -> bool:
        """Whether the program has changed none of them since."""
        if self._checks[0] != len(self.held):
            held = dict(self.held)  # another thread may add some
            self._checks = len(held), [_check_of(parts_of, held) for parts_of in {parts_of for parts_of, _ in held}]
        for parts_now, then in self._checks[1]:
            now = list(_chained(parts_now()))
            if len(now) != len(then) or not all(map(operator.is_, now, then)):
                return False
        return True


def _check_of(parts_of: "_Parts", held: "_Held") -> "Tuple[Callable[[], Iterable[Any]], List[Any]]":
    """What tells these parts of all that is held for them, and what they were."""
    things, parts = zip(*(one for (its, _), one in held.items() if its is parts_of))
    return functools.partial(map, parts_of, things), list(_chained(parts))


_members: "Optional[_Members]" = None


# What a program may exchange of a function, besides the names of its attributes: vars.
_code_of = operator.attrgetter("__code__", "__defaults__", "__kwdefaults__")


def _jit_parts_of(function: Any) -> Tuple[Any, ...]:
    own = vars(function)
    return len(own), type(function), function.fn, own.get("noinline"), own.get("_src", own.get("src"))


def _values_of(thing: Any) -> "Iterable[Any]":
    values: "Iterable[Any]" = vars(thing).values()
    return values


def _content_of(cell: Any) -> Tuple[Any, ...]:
    return (cell.cell_contents,)


def _items_of(items: List[Any]) -> Tuple[Any, ...]:
    return (len(items), *items)


def _behind(function: FunctionType) -> Tuple[Any, ...]:
    """What the backends have for a function that dispatches on them."""
    return tuple(vars(backend.libdevice).get(function.__name__) for backend in _backends())


@functools.lru_cache(maxsize=1)
def _backends() -> Tuple[ModuleType, ...]:
    """The packages whose attribute `libdevice` Triton takes."""
    packages = tuple(f"triton.language.extra.{name}" for name in ("cuda", "hip"))
    for package in packages:
        importlib.import_module(f"{package}.libdevice")
    return tuple(importlib.import_module(package) for package in packages)


def _current_members() -> _Members:
    global _members
    members = _members
    if members is None or not members.are_current():
        _members = members = _Members()
    return members


def _names_of(function: Any) -> List[str]:
    """The names that make up the function's name in the lowered module, where two functions of one name become one."""
    return [str(name) for one in (function, function.fn) for name in (one.__module__, one.__qualname__)] + [str(function._fn_name)]


def _function_of(member: Any) -> Any:
    """The function behind a member of a class."""
    kind = type(member)
    return member.fget if kind is property else member.__func__ if kind in (staticmethod, classmethod) else (
        member.func if kind is functools.cached_property else member)


@functools.lru_cache(maxsize=1)
def _kinds_of_values() -> Tuple[type, ...]:
    """Triton's classes for the values of a kernel."""
    bases = tuple(getattr(tl.core, name) for name in ("base_value", "base_type", "_value", "dtype", "constexpr", "tensor") if hasattr(tl.core, name))
    return tuple(one for one in vars(tl.core).values() if isinstance(one, type) and issubclass(one, bases))


@functools.lru_cache(maxsize=1)
def _dtypes() -> Tuple[Any, ...]:
    return tuple(one for one in vars(tl.core).values() if type(one) is tl.dtype)


class _Specialization(NamedTuple):
    """The argument of a kernel's `repr`."""
    constants: Any
    signature: Any


def _symbol(source: Any) -> str:
    """The kernel's name in the lowered module."""
    if source.fn._repr is None:
        return str(source.fn._fn_name).rpartition(".")[2]
    constants = {source.fn.arg_names[path[0]]: value for path, value in source.constants.items() if len(path) == 1}
    return str(source.fn.repr(_Specialization(constants, source.signature)))


def _looked_up(function: FunctionType, chains: "Iterable[Tuple[str, ...]]") -> "Iterable[Tuple[Tuple[str, ...], Any]]":
    """The chains whose first name is found, each with the value of that name."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    for chain in chains:
        if chain[0] in cells:
            yield chain, cells[chain[0]].cell_contents
        elif chain[0] in function.__globals__:
            yield chain, function.__globals__[chain[0]]
        elif chain[0] in ("getattr", "hasattr"):
            raise Unknown("it asks for an attribute by what a value says")


def _of_module(module: ModuleType, name: str) -> Any:
    # Not getattr: a module of the program may compute its attributes.
    if name in vars(module):
        return vars(module)[name]
    if _is_tritons(vars(module)):
        return getattr(module, name)
    raise Unknown("it reaches what a module has not got")


def _is_tritons(namespace: Mapping[str, Any]) -> bool:
    """Whether the toolchain's fingerprint covers the file of the module with this name."""
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
    """chains: each name that is not local, with the attributes that follow it directly. members: all attributes."""
    chains: "Tuple[Tuple[str, ...], ...]"
    members: Tuple[str, ...]


_names: Dict[str, _Names] = {}  # by text


class _Parsing:
    """In Python before 3.11.5 two threads that parse may fail (SystemError). A forked child has a lock of its own: its parent's may be
    held by a thread that the child lacks."""

    def __init__(self) -> None:
        self.reset_after_fork()
        _process.reset_in_children(self)

    def reset_after_fork(self) -> None:
        self.lock = threading.RLock()


_parsing = _Parsing()


def _names_in(text: str, tree: "Optional[ast.Module]" = None) -> _Names:
    names = _names.get(text)
    if names is None:
        with _parsing.lock:
            tree = tree or ast.parse(text)
        function, = tree.body
        if not isinstance(function, ast.FunctionDef):
            raise Unknown("it is not a function")
        visitor = _Visitor()
        visitor.visit_kernel(function)
        if len(_names) >= _TEXTS_MAX:
            _names.clear()
        names = _names[text] = _Names(tuple(visitor.chains), tuple(visitor.members))
    return names


def _note_parsed() -> None:
    """Triton parses a text for its own key before it asks for a kernel. The names in it are noted then: to parse it again takes as long."""
    parse = _JITCallable.parse

    @functools.wraps(parse)
    def parse_and_note(function: Any) -> Any:
        with _parsing.lock:
            tree = parse(function)
        with attempt("to note the names in a function", (Unknown,)):
            _names_in(function.src, tree)
        return tree

    _JITCallable.parse = parse_and_note


@functools.lru_cache(maxsize=None)
def _fields_with_names(kind: "Type[ast.AST]") -> Tuple[str, ...]:
    if issubclass(kind, ast.stmt) and not issubclass(kind, _PLAIN_STATEMENTS):
        raise Unknown(f"it has a statement that Triton does not lower ({kind.__name__})")
    return tuple(name for name in kind._fields if name not in _NAMELESS)


class _Visitor:
    """Visits a function in the order in which Triton lowers it. A name is local once it is certain to have been assigned. After
    an `if` that assigns it, it may be either, so the global of that name counts too."""

    def __init__(self) -> None:
        self.chains: "Dict[Tuple[str, ...], None]" = {}
        self.members: Dict[str, None] = {}
        self._local: FrozenSet[str] = frozenset()
        self._annotated: FrozenSet[str] = frozenset()  # names that Triton forgets after an `if` that assigned them

    def visit_kernel(self, node: ast.FunctionDef) -> None:
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        # Some versions do not bind the others, so these may mean a global.
        self._local = frozenset(one.arg for one in arguments.args)
        self._visit_all(node.body)

    def visit(self, node: ast.AST) -> None:
        kind: Any = type(node)
        visit = _VISITS.get(kind)
        if visit is not None:
            visit(self, node)
            return
        for name in _fields_with_names(kind):
            inside = getattr(node, name, None)
            for one in inside if type(inside) is list else (inside,):
                if isinstance(one, ast.AST):
                    self.visit(one)

    def _visit_all(self, nodes: "Iterable[ast.AST]") -> None:
        for node in nodes:
            self.visit(node)
            if isinstance(node, ast.Return):  # Triton ignores the statements after it
                break

    def _assign(self, *targets: ast.AST) -> None:
        for target in targets:
            if isinstance(target, ast.Name):
                self._local |= {target.id}
            elif isinstance(target, (ast.Tuple, ast.List)):
                self._assign(*target.elts)
            elif isinstance(target, ast.Starred):
                self._assign(target.value)
            else:
                raise Unknown("it assigns to something that is not a name")

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
        self.visit(node.target)
        self.visit(node.value)
        self._assign(node.target)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before = self._local
        self._visit_all(node.body)
        after, self._local = self._local, before
        self._visit_all(node.orelse)
        self._local = before | (self._local & after) - self._annotated

    def visit_For(self, node: "Union[ast.For, ast.While]") -> None:
        self.visit(node.iter if isinstance(node, ast.For) else node.test)
        before = self._local
        if isinstance(node, ast.For):
            self._assign(node.target)
        self._visit_all(node.body)
        self._local = before
        self._visit_all(node.orelse)
        self._local = before

    visit_While = visit_For

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
        self.visit(node.value)  # may not be evaluated

    def visit_Name(self, node: ast.Name, *attributes: str) -> None:
        if node.id not in self._local:
            chain = (node.id, *attributes)
            self.chains[chain] = None

    def visit_Attribute(self, node: ast.expr) -> None:
        attributes: List[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
        self.members.update(dict.fromkeys(attributes))
        if isinstance(node, ast.Name):
            self.visit_Name(node, *attributes)
        else:
            self.visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        compared = (node.left, *node.comparators)
        self._visit_all(compared)
        if any(isinstance(one, (ast.Is, ast.IsNot)) for one in node.ops) and not any(
                isinstance(one, ast.Constant) and one.value in (None, True, False) for one in compared):
            raise Unknown("it asks whether two values are one object")


_VISITS: "Dict[Type[ast.AST], Callable[[_Visitor, Any], None]]" = {
    ast.Constant: lambda _, __: None,
    **{kind: getattr(_Visitor, f"visit_{kind.__name__}") for kind in (ast.Name, ast.Attribute, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.If, ast.For,
                                                                     ast.While, ast.With, ast.ListComp, ast.Compare, ast.NamedExpr)}
}

_note_parsed()
