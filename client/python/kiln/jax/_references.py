"""jax.Refs among the arguments of a call: the kernel has the array, and what it leaves there is the reference's next content."""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from kiln.jax._arguments import is_array
from kiln.jax._descriptors import TensorDescriptor


class Refs:
    """Those of one call. Each is an argument that an output of the call is aliased with."""

    def __init__(self, title: str, given: Sequence[Any], aliases: Optional[Mapping[int, int]]) -> None:
        """given: all arguments. aliases: the caller's. TypeError for a part of a reference, and for one at two places; ValueError for
        aliases beside references."""
        import jax
        for place, one in enumerate(given):
            if is_reference(one) and not isinstance(one, jax.Ref):
                raise TypeError(f"{title}: argument {place} is a part of a jax.Ref: give all of it")
        operands = [one for one in given if is_array(one) or isinstance(one, TensorDescriptor)]
        self._refs = {place: one for place, one in enumerate(operands) if isinstance(one, jax.Ref)}
        if len({id(one) for one in self._refs.values()}) < len(self._refs):
            raise TypeError(f"{title}: a jax.Ref is given twice, and a kernel writes to it in one place")
        if self._refs and aliases:
            raise ValueError(f"{title}: input_output_aliases beside a jax.Ref, which is written in place without them")

    def __len__(self) -> int:
        return len(self._refs)

    def values(self, given: Sequence[Any]) -> List[Any]:
        """The arguments, with the content of each reference."""
        import jax
        return [one[...] if isinstance(one, jax.Ref) else one for one in given]

    def outputs(self) -> List[Any]:
        """Shape and type of what each leaves."""
        import jax
        return [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in self._refs.values()]

    def aliases(self, first: int) -> Dict[int, int]:
        """Outputs, from the number `first` on, for places among the array arguments."""
        return {place: first + number for number, place in enumerate(self._refs)}

    def write(self, results: Sequence[Any]) -> None:
        for one, result in zip(self._refs.values(), results, strict=True):
            one[...] = result


def is_reference(given: Any) -> bool:
    """A jax.Ref, or a part of one."""
    import jax
    from jax._src.state.types import TransformedRef
    return isinstance(given, (jax.Ref, TransformedRef))
