"""What whoever launches a binary, or looks at it, has to know of it."""

import re

from kiln_triton_worker.ptxas_report import ptxas_usage
from kiln_triton_worker.source_text import argument_names


def describe_kernel(target, metadata, done, printed):
    """What Triton and its assembler have said of it. `printed` is standard output during the stages."""
    texts = {stage: content for stage, content, _ in done}
    name = metadata["name"]
    registers, spill_bytes = (ptxas_usage(printed, name) if target.backend == "cuda" else amdgcn_usage(
        texts.get("amdgcn", b"").decode("utf-8", "replace")))
    return {
        "name": name,
        "shared_bytes": metadata.get("shared") or 0,
        "num_warps": metadata["num_warps"],
        "num_ctas": metadata.get("num_ctas") or 1,
        "warp_size": target.warp_size,
        "global_scratch_bytes": metadata.get("global_scratch_size") or 0,
        "global_scratch_align": metadata.get("global_scratch_align") or 1,
        "profile_scratch_bytes": metadata.get("profile_scratch_size") or 0,
        "profile_scratch_align": metadata.get("profile_scratch_align") or 1,
        "tensor_memory_columns": metadata.get("tmem_size") or 0,
        "cluster_dims": list(metadata.get("cluster_dims") or (metadata.get("num_ctas") or 1, 1, 1)),
        "launch_pdl": bool(metadata.get("launch_pdl")),
        "launch_cooperative_grid": bool(metadata.get("launch_cooperative_grid")),
        "registers": registers,
        "spill_bytes": spill_bytes,
        "tensor_descriptors": [descriptor(entry) for entry in metadata.get("tensordesc_meta") or ()],
    }


def descriptor(entry):
    return {
        "swizzle": entry.get("swizzle") or 0,
        "elem_size": entry.get("elem_size") or 0,
        "elem_type": entry.get("elem_type") or 0,
        "block_size": list(entry.get("block_size") or ()),
        "fp4_padded": bool(entry.get("fp4_padded")),
    }


def amdgcn_usage(text):
    """(registers, bytes of spill stores) out of the code object's metadata, where a spilled register is 4 bytes per thread."""
    # Inline assembly may say the same in a comment, with numbers that no kernel has.
    registers = re.search(r"\.vgpr_count:\s+(\d{1,5})\b", text)
    spills = re.search(r"\.vgpr_spill_count:\s+(\d{1,9})\b", text)
    return registers and int(registers.group(1)), spills and 4 * int(spills.group(1))


# Limits on a parameter's name, and on all names of a kernel together.
NAME_BYTES_MAX = 1 << 10
NAMES_BYTES_MAX = 256 << 10


def without_long_names(names):
    """The same, with "" for those that the daemon does not take. They say nothing that the order does not.

    LeaveOutLongNames in daemon/worker/native/kernel_description.cc is the same.
    """
    kept, taken = [], 0
    for name in names:
        size = len(name.encode())
        taken += size
        kept.append(name if size <= NAME_BYTES_MAX and taken <= NAMES_BYTES_MAX else "")
    return kept


def parameters(text, function, signature, given):
    """[[name, type]] in the order of passing.

    Names and Triton's own spelling of types come from the client's specialization where it fits the IR, otherwise the names from
    the IR's SSA values, which Triton prints as the author's names when the module has locations.
    """
    if given is not None and len(given) == len(signature):
        return given
    names = argument_names(text, function)
    if len(names) != len(signature):
        names = [""] * len(signature)
    return [[name, kind] for name, kind in zip(without_long_names(names), signature)]
