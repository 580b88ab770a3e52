// The part of kiln_launch.h that tells of loaded kernels.
#include "client/launch/c_edge.h"

using namespace kiln::launch;  // NOLINT: this file is their interface

extern "C" {

kiln_launch_code kiln_launch_kernel_get_info(kiln_launch_kernel* kernel,
                                             kiln_launch_kernel_info* info) {
  return Guarded({kernel}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(const FunctionFacts facts, kernel->launcher.FactsOf(*kernel->kernel));
    kiln_launch_kernel_info result{};
    result.registers = static_cast<uint32_t>(facts.registers);
    result.local_bytes = static_cast<uint32_t>(facts.local_bytes);
    result.static_shared_bytes = static_cast<uint32_t>(facts.static_shared_bytes);
    result.threads_max = static_cast<uint32_t>(facts.threads_max);
    return Write(result, info);
  });
}

kiln_launch_code kiln_launch_kernel_get_times(kiln_launch_kernel* kernel, uint32_t reset,
                                              kiln_launch_times* times) {
  return Guarded({kernel}, [&]() -> Status {
    // Checked before the reset, which loses times that cannot be returned.
    LAUNCH_RETURN_IF_ERROR(CheckHasSize(times));
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_times read,
                            kernel->launcher.TimesOf(*kernel->kernel, reset != 0));
    return Write(read, times);
  });
}

kiln_launch_code kiln_launch_kernel_get_resident_blocks(kiln_launch_kernel* kernel,
                                                        uint32_t threads,
                                                        uint32_t dynamic_shared_bytes,
                                                        uint32_t* blocks) {
  return Guarded({kernel, blocks}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(
        *blocks, kernel->launcher.ResidentBlocks(*kernel->kernel, threads, dynamic_shared_bytes));
    return Status();
  });
}

}  // extern "C"
