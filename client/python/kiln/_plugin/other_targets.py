"""For which GPUs the front end makes the same Triton IR. A recording says it, so that `kiln warm --target` knows which kernels a job
on that GPU would ask for in another form (docs/manifest.md)."""

import contextlib
import threading
from typing import Any, Dict, Iterator, List, Mapping

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget

from kiln._plugin.ttir_text import text_of
from kiln._signals import suppressed

# One of each kind that the front end or Triton's first stage tells apart, with its warp size.
_ASKED: Dict[str, Mapping[Any, int]] = {
    "cuda": {80: 32, 86: 32, 89: 32, 90: 32, 100: 32, 103: 32, 120: 32},
    "hip": {"gfx90a": 64, "gfx942": 64, "gfx950": 64},
}
_here = threading.local()


def is_asking() -> bool:
    """Whether this thread makes stages to ask, so that no hook of Kiln's takes them over."""
    return getattr(_here, "is_asking", False)


def same_ir_targets(source: Any, backend: Any, options: Mapping[str, Any]) -> List[str]:
    """The targets of this vendor whose Triton IR is this backend's. Lowers the kernel once for each: half a second or so.
    source: what Triton compiles. Empty where the source is no function, or the kernel does not lower a second time."""
    own = backend.target
    texts: Dict[str, str] = {}
    with asking():
        for arch, warp_size in {**_ASKED.get(own.backend, {}), own.arch: own.warp_size}.items():
            with suppressed(Exception):
                texts[f"{own.backend}:{arch}"] = _lowered(source, type(backend)(GPUTarget(own.backend, arch, warp_size)), options)
    mine = texts.get(f"{own.backend}:{own.arch}")
    return sorted(target for target, text in texts.items() if text == mine)


def _lowered(source: Any, backend: Any, options: Mapping[str, Any]) -> str:
    parsed = backend.parse_options(dict(options))
    stages: Dict[str, Any] = {}
    backend.add_stages(stages, parsed, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(backend.target, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context)
    return text_of(stages["ttir"](module, {}))


@contextlib.contextmanager
def asking() -> Iterator[None]:
    _here.is_asking = True
    try:
        yield
    finally:
        _here.is_asking = False
