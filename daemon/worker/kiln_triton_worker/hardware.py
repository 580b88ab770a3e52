"""The architectures that there are, and what fits on one."""

from kiln_triton_worker.failure import Failure

# Architectures worth trying. A toolchain's description lists those for which WARM_KERNEL compiles.
CANDIDATE_ARCHITECTURES = {
    "cuda": ("75", "80", "86", "87", "89", "90", "100", "101", "103", "110", "120", "121"),
    "hip": ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151",
            "gfx1200", "gfx1201", "gfx1250"),
}

# The most shared memory that one block may have. Triton asks the device when it loads a kernel; a daemon has no
# device, so the limits stand here.
# CUDA: "Maximum amount of shared memory per thread block", CUDA C++ Programming Guide, table of technical specifications
# per compute capability. HIP: LDS per workgroup, the AMD ISA guides of CDNA2, CDNA3, CDNA4 and RDNA.
SHARED_KIB_MAX = {
    "cuda": {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 101: 227, 103: 227, 110: 227, 120: 99, 121: 99},
    "hip": {"gfx950": 160, "gfx1250": 320},
}
SHARED_KIB_DEFAULT = {"hip": 64}
THREADS_PER_BLOCK_MAX = 1024
# Columns of tensor memory on sm_100 and its kin; the number that Triton itself checks at load time.
TENSOR_MEMORY_COLUMNS_MAX = 512


def check_fits(target, metadata):
    """What Triton checks when it loads a kernel, as far as it can be told without a device."""
    table = SHARED_KIB_MAX[target.backend]
    kib = table.get(target.arch, SHARED_KIB_DEFAULT.get(target.backend))
    needed = metadata.get("shared") or 0
    if kib is not None and needed > kib << 10:
        raise Failure("resource_exhausted", "llir",
                      f"out of shared memory: the kernel needs {needed} bytes per block, {target.backend}:{target.arch} "
                      f"has {kib << 10}; smaller blocks or fewer num_stages may help")
    columns = metadata.get("tmem_size") or 0
    if columns > TENSOR_MEMORY_COLUMNS_MAX:
        raise Failure("resource_exhausted", "llir", f"out of tensor memory: the kernel needs {columns} columns, there are "
                      f"{TENSOR_MEMORY_COLUMNS_MAX}; smaller blocks may help")
    threads = metadata["num_warps"] * target.warp_size
    if threads > THREADS_PER_BLOCK_MAX:
        raise Failure("resource_exhausted", "llir", f"too many threads: {metadata['num_warps']} warps are {threads} threads "
                      f"per block, the hardware takes {THREADS_PER_BLOCK_MAX}; use fewer num_warps")
