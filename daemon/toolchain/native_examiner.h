// Learns what a native compiler is and can do.
#pragma once

#include <memory>
#include <utility>

#include "daemon/kernel/toolchain.h"
#include "daemon/toolchain/file_snapshot.h"
#include "daemon/toolchain/native_toolchain.h"
#include "daemon/toolchain/toolchain_cache.h"
#include "daemon/toolchain/toolchain_examiner.h"

namespace kiln {

// As ToolchainExaminer, for what kiln-worker runs. The fingerprint of a ptxas is the SHA-256 of the
// file, so that anyone can tell it with sha256sum; that of an NVRTC covers its libraries and all
// headers (docs/toolchains.md). Not thread-safe; blocks for a second.
class NativeExaminer {
 public:
  // `program` is kiln-worker; `cache` outlives the examiner.
  NativeExaminer(DescribeProgram program, ToolchainCache& cache, FileOwners owners)
      : program_(std::move(program)), cache_(cache), owners_(std::move(owners)) {}

  // The error says, in a line for people, why it cannot be used.
  absl::StatusOr<std::shared_ptr<const Toolchain>> Examine(const NativeToolchain& found);

 private:
  absl::StatusOr<Digest> FingerprintOf(const NativeToolchain& found, const FileSnapshot& snapshot,
                                       const Digest& listing);
  absl::StatusOr<Toolchain> Describe(const NativeToolchain& found, const Digest& fingerprint);

  const DescribeProgram program_;
  ToolchainCache& cache_;
  const FileOwners owners_;
};

}  // namespace kiln
