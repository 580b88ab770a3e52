"""Lowers a kernel once for all configurations of a tuning that Triton's front end does not tell apart.

Configurations often differ in num_warps or num_stages alone, for which few kernels ask. What the front end asks of the options is
noted while the first configuration is lowered. Another one of the same source whose answers would be the same has the same Triton IR.

Only threads that compile ahead of a tuning do this. They compile nothing themselves, so the text of the IR is all that they need:
modules cannot be copied. What fails here is compiled by Triton in its turn. docs/adr/0122 has the reasons.
"""

from types import SimpleNamespace
from typing import Any, Dict, List, Tuple

from triton.compiler.compiler import ASTSource

from kiln._plugin import autotune_prefetch, lowering_warnings, other_targets, source_dependencies
from kiln._plugin.attempt import attempt
from kiln._plugin.ttir_text import text_of

_NO_OPTIONS = SimpleNamespace()
_NOT_COPIED = "options that note what they are asked are not copied"
_Answers = Dict[str, str]


class Lowered:
    """In the place of a module that is not lowered any further. Its text is the module's. whole: what ttir_text makes of it."""

    def __init__(self, text: str, whole: str = "", name: str = "") -> None:
        self.whole, self._text, self._name = whole, text, name

    def __str__(self) -> str:
        return self._text

    def get_entry_func_name(self) -> str:
        return self._name


class FrontEnd(Lowered):
    """In the place of what the front end makes. ttir: what Triton's first stage makes of it. answers: what both asked of the options."""

    def __init__(self, text: str, ttir: Lowered, answers: _Answers, warned: Any) -> None:
        super().__init__(text)
        self.ttir, self.warned, self._answers = ttir, warned, answers

    def fits(self, options: Any) -> bool:
        return _answers(options, self._answers) == self._answers


class Lowerings:
    """What a tuning has lowered. For the thread whose turn it is."""

    def __init__(self) -> None:
        self._of: "Dict[Tuple[str, str], List[FrontEnd]]" = {}

    def find_or_lower(self, source: Any, backend: Any, options: Any, context: Any) -> FrontEnd:
        """source_dependencies.Unknown; what Triton raises."""
        known = self._of.setdefault((source_dependencies.digest(source, _NO_OPTIONS, str), str(backend.target)), [])
        for one in known:
            if one.fits(options):
                lowering_warnings.repeat(one.warned)
                return one
        known.append(_lowered(source, backend, options, context))
        return known[-1]


def offer(compiling: Any) -> None:
    """Call with the frame of a compile() of Triton's that has not found its kernel: it takes the IR from here if this thread compiles
    ahead. The kernel must have a key (source_dependencies): then its source and its options are all that decide the IR."""
    source, backend, options = (compiling.f_locals.get(name) for name in ("src", "backend", "options"))
    if type(source) is not ASTSource or not autotune_prefetch.is_ahead():
        return
    lowerings = autotune_prefetch.lowerings()

    def make_ir(target: Any, options_: Any, functions: Any, modules: Any, context: Any) -> Any:
        source.__dict__.pop("make_ir", None)
        if options_ is options and autotune_prefetch.is_ahead():
            with attempt("to lower a kernel for several configurations"):
                return lowerings.find_or_lower(source, backend, options, context)
            lowering_warnings.begin()
        return source.make_ir(target, options_, functions, modules, context)

    source.make_ir = make_ir


def _lowered(source: Any, backend: Any, options: Any, context: Any) -> FrontEnd:
    asking, asked = _asking(options)
    stages: Dict[str, Any] = {}
    with other_targets.asking():
        backend.add_stages(stages, asking, source.language)
    module = source.make_ir(backend.target, asking, backend.get_codegen_implementation(asking), backend.get_module_map(), context)
    text = str(module)
    module = stages["ttir"](module, _NoMetadata())
    ttir = Lowered(str(module), text_of(module), str(module.get_entry_func_name()))
    return FrontEnd(text, ttir, _answers(options, asked), lowering_warnings.noted())


class _NoMetadata:
    """In the place of a compile's metadata, which the first stage neither reads nor writes. One that did would fail."""


def _answers(options: Any, asked: Any) -> _Answers:
    """What these options answer, with types; all of them if the front end has asked for all at once."""
    values = vars(options)
    return {name: repr(values[name]) if name in values else "" for name in (values if "__dict__" in asked else asked)}


def _asking(options: Any) -> "Tuple[Any, Dict[str, None]]":
    """Options that note what they are asked. They hold no values, so nothing gets one unnoticed, C++ included."""
    values = vars(options)
    asked: Dict[str, None] = {}

    class Asking(type(options)):  # type: ignore[misc]

        def __init__(self, *_: Any, **__: Any) -> None:
            raise TypeError(_NOT_COPIED)

        def __reduce_ex__(self, _: Any) -> Any:
            raise TypeError(_NOT_COPIED)

        def __getattribute__(self, name: str) -> Any:
            asked[name] = None
            if name in ("__dict__", "__class__"):
                return dict(values) if name == "__dict__" else type(options)
            return values[name] if name in values else super().__getattribute__(name)

    return object.__new__(Asking), asked
