"""triton_call: from the arguments of a call to a bound primitive."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from kiln.jax._arguments import ArrayArgument, array_argument, bound, in_order, is_array, metaparameter, positional, value
from kiln.jax._descriptors import Buffer, DescriptorArgument, TensorDescriptor, base_of, blocks_of, descriptor_argument
from kiln.jax._kernels import Kernel, kernel_of
from kiln.jax._outputs import Zeroed, aliases_of, check_contents, grid_of, zeroed_of
from kiln.jax._plan import Plan, Way
from kiln.jax._references import Refs, is_reference


_ABSENT: Any = object()


def triton_call(*args: Any, kernel: Any, out_shape: Any = _ABSENT, grid: Any, name: str = "", num_warps: Optional[int] = None,
                num_stages: Optional[int] = None, num_ctas: int = 1, compute_capability: "int | str | None" = None,
                enable_fp_fusion: bool = True, input_output_aliases: Optional[Mapping[int, int]] = None, zeroed_outputs: Zeroed = (),
                device: int = 0, debug: bool = False, serialized_metadata: bytes = b"", launch_target: Optional[str] = None,
                out_type: Any = _ABSENT, backend_options: Optional[Mapping[str, Any]] = None, cost_estimate: Any = None,
                has_side_effect: bool = False, **metaparams: Any) -> Any:
    """Calls a Triton kernel: the same call as jax-triton's.

    args: arrays, jax.Refs, TensorDescriptors over arrays, and values, in the order of the kernel's parameters. The outputs come after
        them. Any parameter but an output's may be given by keyword instead. Integers and floats have the types that Triton gives
        Python's; 1 and None are constants. What a kernel writes to a jax.Ref is in the jax.Ref afterwards.
    kernel: a function with triton.jit, and triton.heuristics or triton.autotune around it in any order.
    out_shape: a jax.ShapeDtypeStruct, an array, a TensorDescriptor over one, or a tree of them. Returns arrays in the same tree. out_type:
        another name for it.
    grid: programs along x, y, z: a number, one to three of them, or a function of the metaparameters.
    num_warps, num_stages, num_ctas: None, or 1 CTA: as the configuration or Triton has it.
    compute_capability: 90, or "gfx942"; None: of the local device number `device`.
    input_output_aliases: output for a place among the array arguments. They share one buffer. A kernel has a parameter for each output
        of these, or for none.
    zeroed_outputs: places or names of outputs that are set to zeroes before each launch, or a function of the metaparameters.
    serialized_metadata: passed on to JAX's own targets. launch_target: "kiln_launch", "triton_kernel_call_ffi" or
        "triton_kernel_call"; None: KILN_JAX_TARGET, otherwise the first that can launch the kernel.
    backend_options: options of Triton (maxnreg, launch_pdl), which may be keywords as well. has_side_effect: the call stays where nobody
        uses its outputs. cost_estimate: taken, and passed over.
    metaparams: of the kernel, or options of Triton.

    TypeError, ValueError: the call is wrong, or there is no GPU and no compute_capability. What Triton raises for a kernel that
    does not compile.
    """
    import jax
    from kiln.jax import _primitive
    made = kernel_of(kernel)
    title = name or made.name
    if (out_shape is _ABSENT) == (out_type is _ABSENT):
        raise TypeError(f"{title}: give either out_shape or out_type")
    outputs, tree = jax.tree_util.tree_flatten(out_type if out_shape is _ABSENT else out_shape)
    operands = _operands(title, made, metaparams)
    keywords = keywords_of({parameter: one for parameter, one in metaparams.items() if parameter not in operands}, num_warps, num_stages, num_ctas,
                           enable_fp_fusion, debug, title)
    _add_options(title, made, backend_options, keywords)
    given = in_order(title, positional(made.parameters, keywords, made.chosen_names()), args, operands)
    refs = Refs(title, given, input_output_aliases)
    arrays, plan = plan_of(made, title, refs.values(given), [*outputs, *refs.outputs()], keywords, grid, zeroed_outputs,
                           refs.aliases(len(outputs)) or input_output_aliases, device, compute_capability, launch_target,
                           bytes(serialized_metadata), has_side_effect, len(refs))
    results = _primitive.bind(arrays, plan)
    refs.write(results[len(outputs):])
    return jax.tree_util.tree_unflatten(tree, results[:len(outputs)])


def keywords_of(metaparams: Mapping[str, Any], num_warps: Optional[int], num_stages: Optional[int], num_ctas: int, enable_fp_fusion: bool,
              debug: bool, title: str) -> Dict[str, Any]:
    """Metaparameters, and the options that are not as Triton has them."""
    keywords = {name: metaparameter(f"{title}: {name}", one) for name, one in metaparams.items()}
    options = {"num_warps": num_warps, "num_stages": num_stages, "num_ctas": num_ctas if num_ctas != 1 else None,
               "enable_fp_fusion": None if enable_fp_fusion else False, "debug": True if debug else None}
    keywords.update((name, one) for name, one in options.items() if one is not None)
    return keywords


def _operands(title: str, kernel: Kernel, metaparams: Mapping[str, Any]) -> Dict[str, Any]:
    """Arrays that are given by keyword. TypeError for one that is for no parameter."""
    operands = {name: one for name, one in metaparams.items() if is_reference(one) or is_array(one) or isinstance(one, TensorDescriptor)}
    names = [one.name for one in kernel.parameters]
    for name in operands:
        if name not in names:
            raise TypeError(f"{title}: {name}: the kernel has no such parameter; it has {', '.join(names)}")
    return {name: one for name, one in operands.items() if name in kernel.passed_names()}


def _add_options(title: str, kernel: Kernel, options: Any, keywords: Dict[str, Any]) -> None:
    """Adds backend_options to the keywords. TypeError for what is none; ValueError for one that is given twice."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"{title}: backend_options: {options!r} is no dictionary of options")
    for name, one in (options or {}).items():
        if name in keywords:
            raise ValueError(f"{title}: {name} is given twice, once in backend_options")
        if not isinstance(name, str) or any(name == parameter.name for parameter in kernel.parameters):
            raise TypeError(f"{title}: backend_options: {name!r} is no option of Triton")
        keywords[name] = metaparameter(f"{title}: backend_options: {name}", one)


def plan_of(kernel: Kernel, title: str, args: Sequence[Any], outputs: Sequence[Any], keywords: Dict[str, Any], grid: Any, zeroed: Any,
          aliases: Any, device: int, capability: Any, launch_target: Optional[str], metadata: bytes, has_side_effect: bool = False,
          unpassed: int = 0) -> "Tuple[List[Any], Plan]":
    """The arrays among the arguments, and everything else of the call. unpassed: how many of the last outputs, which are aliased, have no
    parameter of their own."""
    arrays = [array for array in (one.base if isinstance(one, TensorDescriptor) else one for one in args) if is_array(array)]
    given = [_argument(f"{title}: argument {place}", one) for place, one in enumerate(args)]
    results = [_result(f"{title}: output {place}", one) for place, one in enumerate(outputs)]
    operands = [base_of(one) for one in given if isinstance(one, Buffer)]
    outputs = [base_of(one) for one in results]
    joined = aliases_of(title, aliases, operands, outputs)
    order = positional(kernel.parameters, keywords, kernel.chosen_names())
    passed = [one for place, one in enumerate(results) if place not in joined.values()]
    if not unpassed and not len(given) + len(passed) <= len(order) < len(given) + len(results):
        passed = results
    named = bound(title, order, [*given, *passed])
    output_names = _output_names([name for name, one in named.items() if isinstance(one, Buffer)], operands, outputs, joined)
    ways = []
    for variant in kernel.variants(named, keywords):
        shown = {**named, **variant.keywords}
        is_zeroed = zeroed_of(title, zeroed, shown, output_names[:len(outputs) - unpassed]) + (False,) * unpassed
        ways.append(Way(variant, grid_of(title, grid, shown), is_zeroed, blocks_of(title, named, shown)))
    check_contents(title, kernel.tuner, output_names, [way.zeroed for way in ways], set(joined.values()))
    return arrays, Plan(
        kernel=kernel, title=title, arguments=named, operands=tuple(operands), outputs=tuple(outputs), ways=tuple(ways),
        aliases=joined, device=device, capability=capability, launch_target=launch_target,
        metadata=metadata, output_names=output_names, has_side_effect=has_side_effect)


def _output_names(order: Sequence[str], operands: Sequence[Any], outputs: Sequence[Any], aliases: Mapping[int, int]) -> Tuple[str, ...]:
    """The parameter of each output. The kernel may have none for aliased ones: the input's is theirs. order: of arrays."""
    if len(order) == len(operands) + len(outputs):
        return tuple(order[len(operands):])
    shared, own = {output: order[operand] for operand, output in aliases.items()}, iter(order[len(operands):])
    return tuple(shared[place] if place in shared else next(own) for place in range(len(outputs)))


def _argument(what: str, given: Any) -> Any:
    if isinstance(given, TensorDescriptor):
        if is_reference(given.base) or not is_array(given.base):
            raise TypeError(f"{what}: its descriptor is over {given.base!r}, which is no array")
        return descriptor_argument(what, given, array_argument(what, given.base.shape, _dtype(what, given.base)))
    return array_argument(what, given.shape, _dtype(what, given)) if is_array(given) else value(what, given)


def _result(what: str, given: Any) -> "ArrayArgument | DescriptorArgument":
    if isinstance(given, TensorDescriptor):
        return descriptor_argument(what, given, base_of(_result(what, given.base)))
    if not hasattr(given, "shape") or not hasattr(given, "dtype"):
        raise TypeError(f"{what}: out_shape has {given!r}, which has no shape and dtype; give a jax.ShapeDtypeStruct")
    return array_argument(what, given.shape, _dtype(what, given))


def _dtype(what: str, given: Any) -> Any:
    """As JAX will have it: without jax_enable_x64 NumPy's 64 bits are 32. TypeError for what is no type of numbers."""
    import jax
    import numpy
    try:
        return numpy.dtype(jax.dtypes.canonicalize_dtype(given.dtype))
    except (TypeError, ValueError):
        is_key = getattr(given.dtype, "type", None) is jax.dtypes.prng_key
        hint = ": jax.random.key_data gives the numbers of a key" if is_key else ""
        raise TypeError(f"{what}: Triton has no type {given.dtype}{hint}") from None
