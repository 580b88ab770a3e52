"""What the daemon takes of an answer: it takes more for a sign that the worker is broken, and suspects the source.

daemon/worker/native/messages.cc keeps to the same; tests/vectors/worker_replies.json holds the two together.
"""

from kiln_triton_worker.failure import Failure
from kiln_triton_worker.frames import HEADER_BYTES_MAX, PAYLOAD_BYTES_MAX, to_json

KERNEL_NAME_BYTES_MAX = 64 << 10
PARAMETERS_MAX = 4096
PARAMETER_TYPE_BYTES_MAX = 4 << 10
TOOLCHAIN_METADATA_BYTES_MAX = 1 << 20
# The largest number of each; none may be negative. A module of a later stage says some of them itself.
COUNTS_MAX = {
    "shared_bytes": 1 << 40, "num_warps": 1 << 20, "num_ctas": 1 << 20, "global_scratch_bytes": 1 << 40,
    "global_scratch_align": 1 << 40, "profile_scratch_bytes": 1 << 40, "profile_scratch_align": 1 << 40,
    "tensor_memory_columns": 1 << 20,
}
CLUSTER_EXTENT_MAX = 1 << 20
# What a header has besides: how much was used.
OTHER_BYTES_MAX = 1 << 10


def compiled_reply(done, kernel):
    """(header, outputs of the stages), or Failure where it is too large to be sent: no other worker would change that."""
    last = done[-1][0]
    check_description(kernel, last)
    check_counts(kernel, last)
    stages = [{"name": stage, "bytes": len(content or b""), "micros": micros} for stage, content, micros in done]
    header = {"outcome": "compiled", "stages": stages, "kernel": kernel}
    blobs = [content for _, content, _ in done if content is not None]
    header_bytes, payload_bytes = len(to_json(header)) + OTHER_BYTES_MAX, sum(map(len, blobs))
    if header_bytes > HEADER_BYTES_MAX or payload_bytes > PAYLOAD_BYTES_MAX:
        raise Failure("resource_exhausted", last, f"it compiled, but to {payload_bytes} bytes with a description of {header_bytes}, and "
                      f"Kiln takes at most {PAYLOAD_BYTES_MAX} and {HEADER_BYTES_MAX}")
    return header, blobs


def failed_reply(failure):
    return {"outcome": "failed", "failure": failure.to_json()}, []


def check_description(kernel, stage):
    sizes = (
        (size(kernel["name"]), KERNEL_NAME_BYTES_MAX, "the size of the kernel's name in bytes"),
        (len(kernel["parameters"]), PARAMETERS_MAX, "the number of the kernel's parameters"),
        (max((size(kind) for _, kind in kernel["parameters"]), default=0), PARAMETER_TYPE_BYTES_MAX,
         "the size of a parameter's type in bytes"),
        (size(kernel["toolchain_metadata"]), TOOLCHAIN_METADATA_BYTES_MAX, "the size of what Triton says of it in bytes"),
    )
    for found, most, what in sizes:
        if found > most:
            raise Failure("resource_exhausted", stage, f"it compiled, but {what} is {found}, and Kiln takes at most {most}")


def check_counts(kernel, stage):
    said = [(name, kernel[name], most) for name, most in COUNTS_MAX.items()]
    said += [("cluster_dims", extent, CLUSTER_EXTENT_MAX) for extent in kernel["cluster_dims"]]
    for name, found, most in said:
        if not 0 <= found <= most:
            raise Failure("invalid_argument", stage, f"it compiled, but its {name} is {found}, and Kiln takes 0 to {most}")


def size(text):
    return len(text.encode("utf-8", "replace"))
