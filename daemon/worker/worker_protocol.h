// What daemon and worker say to each other inside frames. protocol.md has every field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/kernel/kernel.h"
#include "daemon/kernel/toolchain.h"
#include "daemon/process/frame.h"
#include "storage/base/status.h"

namespace kiln {

// The codes of a CompileFailure that a worker gives, as the frames spell them.
inline constexpr std::pair<std::string_view, absl::StatusCode> kFailureCodes[] = {
    {"invalid_argument", absl::StatusCode::kInvalidArgument},
    {"resource_exhausted", absl::StatusCode::kResourceExhausted},
    {"internal", absl::StatusCode::kInternal},
    {"unavailable", absl::StatusCode::kUnavailable},
    {"failed_precondition", absl::StatusCode::kFailedPrecondition},
};

struct WorkerUsage {
  uint64_t cpu_micros = 0;  // user and system, the assembler's included
  uint64_t wall_micros = 0;
  // How far the most memory that it held grew during the compile; 0: not measured.
  uint64_t peak_bytes = 0;
};

struct StageOutput {
  std::string stage;
  std::string bytes;
};

// A worker's answer, after every field has been checked.
struct WorkerReply {
  // kUnable: the failure is UNAVAILABLE or FAILED_PRECONDITION, something that this machine or its
  // operator lacks, and says nothing of the source.
  enum class Outcome { kCompiled, kFailed, kUnable, kCrashed };

  Outcome outcome = Outcome::kFailed;
  // For a kernel that compiled. The caller sets the metadata's target.
  KernelMetadata metadata;
  std::vector<StageTiming> timings;
  std::vector<StageOutput> stages;
  std::string assembler;
  // For a kernel that did not compile, or that crashed the compiler and not the worker.
  CompileFailure failure;
  WorkerUsage usage;
};

// The header of a compile frame; the payload is the source's text. `ptxas` is the one that the
// request names, or null. REQUIRES: CheckShape(request) is OK.
std::string EncodeCompileHeader(const CompileRequest& request, const Toolchain* ptxas);
// The payload where there are headers: the source's text, then theirs.
std::string CompilePayload(const CompileRequest& request);

// A worker's first frame: the steps into its jail that failed, in words. INTERNAL where it is none.
absl::StatusOr<std::vector<std::string>> DecodeReady(const Frame& frame);

// Takes a result frame apart. A worker runs code that a hostile source may have taken over, so
// nothing is believed: INTERNAL where a field is absent, of the wrong type or out of bounds, or
// where the stages are not exactly `stages`.
absl::StatusOr<WorkerReply> DecodeResult(const Frame& frame,
                                         const std::vector<std::string>& stages);

}  // namespace kiln
