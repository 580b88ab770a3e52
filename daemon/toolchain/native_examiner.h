// Learns what a native compiler is and can do.
#pragma once

#include <functional>
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
// headers (docs/toolchains.md). Not thread-safe; blocks for a second, or for as long as it takes to
// read the headers that the configuration names.
class NativeExaminer {
 public:
  // `program` is kiln-worker; `cache` outlives the examiner. Once `is_cancelled`, no further file
  // is read and the answer is CANCELLED. Null: never.
  NativeExaminer(DescribeProgram program, ToolchainCache& cache,
                 std::function<bool()> is_cancelled = nullptr)
      : program_(std::move(program)), cache_(cache), is_cancelled_(std::move(is_cancelled)) {}

  // The error says, in a line for people, why it cannot be used.
  absl::StatusOr<std::shared_ptr<const Toolchain>> Examine(const NativeToolchain& found);

 private:
  absl::StatusOr<Digest> FingerprintOf(const NativeToolchain& found, const FileSnapshot& seal,
                                       const Digest& listing);
  absl::StatusOr<Digest> FingerprintFiles(const NativeToolchain& found,
                                          const std::vector<ToolchainFile>& files) const;
  absl::StatusOr<Toolchain> Describe(const NativeToolchain& found, const Digest& fingerprint);

  const DescribeProgram program_;
  ToolchainCache& cache_;
  const std::function<bool()> is_cancelled_;
};

}  // namespace kiln
