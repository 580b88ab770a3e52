"""Kernels: what Triton's decorators put around a function, and the variants that they give."""

import copy
import inspect
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Set, Tuple

_HOOKED = "it runs Python at each launch, and a compiled program runs none. Do its work with JAX before the call, or use zeroed_outputs"


@dataclass(frozen=True)
class Variant:
    """One way to run a kernel. config: the Autotuner's; None: it has none. keywords: metaparameters and options, of the caller, of the
    configuration and of heuristics."""
    config: Any
    keywords: Mapping[str, Any]

    def __str__(self) -> str:
        return "" if self.config is None else str(self.config)


@dataclass(frozen=True)
class Kernel:
    """outer: what the program calls. function: the JITFunction inside. tuner: the Autotuner between, or None."""
    outer: Any
    function: Any
    tuner: Any

    @property
    def name(self) -> str:
        return str(self.function.__name__)

    @property
    def parameters(self) -> "List[inspect.Parameter]":
        return list(self.function.signature.parameters.values())

    def passed_names(self) -> Set[str]:
        """Parameters that are no constants."""
        return {one.name for one in self.function.params if not one.is_constexpr}

    def chosen_names(self) -> Set[str]:
        """What heuristics and configurations give."""
        names: Set[str] = set()
        for layer in _layers(self.outer):
            names.update(getattr(layer, "values", ()))
            for config in getattr(layer, "configs", ()):
                names.update(config.kwargs)
        return names

    def configured_names(self) -> Set[str]:
        """What every configuration gives."""
        return set.intersection(*(set(config.kwargs) for config in self.tuner.configs)) if self.tuner else set()

    def variants(self, arguments: Mapping[str, Any], keywords: Mapping[str, Any]) -> "List[Variant]":
        """Those that suit what is given, in the user's order. ValueError if none does."""
        return list(_variants(self.name, self.outer, dict(arguments), dict(keywords), None))


def kernel_of(given: Any) -> Kernel:
    """TypeError for what is no kernel of Triton's; ValueError for one that runs Python at each launch."""
    from triton.runtime.jit import JITFunction
    layers = list(_layers(given))
    function = layers[-1]
    if not isinstance(function, JITFunction):
        kind = type(function).__name__
        why = " (TRITON_INTERPRET is set: it interprets kernels with PyTorch)" if kind == "InterpretedFunction" else ""
        raise TypeError(f"kernel: a function with triton.jit is called, not {kind}{why}")
    if function.is_gluon():
        raise TypeError(f"kernel: {function.__name__} is a Gluon kernel; Triton's are taken")
    if function.pre_run_hooks:
        raise ValueError(f"{function.__name__}: it has a pre_run_hook: {_HOOKED}")
    tuners = [layer for layer in layers if hasattr(layer, "configs")]
    if len(tuners) > 1:
        raise TypeError(f"kernel: {function.__name__} has two autotuners")
    for tuner in tuners:
        _check_hooks(function.__name__, tuner)
    return Kernel(given, function, tuners[0] if tuners else None)


def _check_hooks(name: str, tuner: Any) -> None:
    for what in ("pre_hook", "post_hook"):
        if getattr(tuner, f"user_defined_{what}", False):
            raise ValueError(f"{name}: its autotuner has a {what}: {_HOOKED}")
    for config in tuner.configs:
        if config.pre_hook is not None:
            raise ValueError(f"{name}: the configuration {config} has a pre_hook: {_HOOKED}")
    for what in ("reset_to_zero", "restore_value"):
        for argument in getattr(tuner, what):
            if argument not in tuner.arg_names:
                raise ValueError(f"{name}: {what} names {argument!r}, which is no parameter")


def _layers(given: Any) -> Iterator[Any]:
    """What decorators have put around a function, from the outside."""
    from triton.runtime.autotuner import Autotuner, Heuristics
    while isinstance(given, (Autotuner, Heuristics)):
        yield given
        given = given.fn
    yield given


def _variants(name: str, layer: Any, arguments: Dict[str, Any], keywords: Dict[str, Any], config: Any) -> Iterator[Variant]:
    if hasattr(layer, "configs"):
        for one in _pruned(name, layer, arguments, keywords):
            yield from _variants(name, layer.fn, arguments, {**keywords, **one.all_kwargs()}, one)
    elif hasattr(layer, "values"):
        for parameter, heuristic in layer.values.items():
            keywords[parameter] = heuristic({**arguments, **keywords})
        yield from _variants(name, layer.fn, arguments, keywords, config)
    else:
        yield Variant(config, keywords)


def _pruned(name: str, tuner: Any, arguments: Dict[str, Any], keywords: Dict[str, Any]) -> "Tuple[Any, ...]":
    """The configurations that agree with what the caller gives, then those that the user's own functions leave, if they leave any."""
    agreeing = [config for config in tuner.configs if all(keywords.get(key, told) == told for key, told in config.all_kwargs().items())]
    if not agreeing:
        given = {key: keywords[key] for config in tuner.configs for key in config.all_kwargs() if key in keywords}
        raise ValueError(f"{name}: no configuration of its autotuner has {', '.join(f'{key}={told}' for key, told in given.items())}")
    if len(agreeing) == 1:
        return tuple(agreeing)
    own = copy.copy(tuner)  # other threads may use the program's
    own.configs, own.nargs = agreeing, arguments
    others = {key: told for key, told in keywords.items() if not any(key in config.all_kwargs() for config in agreeing)}
    # Not the plug-in's: it would compile all of them now.
    return tuple(inspect.unwrap(type(tuner).prune_configs)(own, others)) or tuple(agreeing)
