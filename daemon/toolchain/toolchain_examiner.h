// Learns what a toolchain is and can do.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "daemon/kernel/toolchain.h"
#include "daemon/toolchain/file_snapshot.h"
#include "daemon/toolchain/found_toolchain.h"
#include "daemon/toolchain/toolchain_cache.h"

namespace kiln {

// How a toolchain is asked what it can do.
struct DescribeProgram {
  std::string path;            // triton_worker.py, or kiln-worker
  Digest digest;               // as worker_digest.h has it
  std::string work_directory;  // for temporary files; "": the system's place for them
  std::chrono::milliseconds time{};
};

// Takes fingerprints and descriptions, from the cache where it knows them. Not thread-safe; blocks
// for seconds.
class ToolchainExaminer {
 public:
  // `cache` outlives the examiner.
  ToolchainExaminer(DescribeProgram program, ToolchainCache& cache, FileOwners owners)
      : program_(std::move(program)), cache_(cache), owners_(std::move(owners)) {}

  // The error says, in a line for people, why it cannot be used. Backends that are known to be bad
  // are left out. REQUIRES: the program is the one for found.name.
  absl::StatusOr<std::shared_ptr<const Toolchain>> Examine(const FoundToolchain& found);

 private:
  absl::StatusOr<Digest> FingerprintOf(const FoundToolchain& found, const FileSnapshot& snapshot,
                                       const Digest& listing);
  absl::StatusOr<Toolchain> Describe(const FoundToolchain& found, const Digest& fingerprint);

  const DescribeProgram program_;
  ToolchainCache& cache_;
  const FileOwners owners_;
};

}  // namespace kiln
