// The words of the domain as plain values: what a client asks for and what it gets. The wire's
// messages (protos/kiln/v1) say the same for the network; daemon/rpc translates. Field by field the
// meaning stands in protos/kiln/v1/kernel.proto.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "storage/base/blob.h"
#include "storage/base/digest.h"
#include "storage/base/made_once.h"
#include "storage/base/status.h"
#include "storage/blob_store.h"

namespace kiln {

enum class SourceKind { kTtir = 1, kCudaCxx = 2, kPtx = 3, kTtgir = 4, kOpenCl = 5 };
// "ttir", "cuda", "ptx", "ttgir", "opencl": as on the command line and in request files.
std::string_view SourceKindName(SourceKind kind);
// INVALID_ARGUMENT, with the known words, for any other.
absl::StatusOr<SourceKind> ParseSourceKind(std::string_view name);

struct KernelSource {
  SourceKind kind = SourceKind::kTtir;
  std::string text;
  // For people: diagnostics and tables. Decides nothing, so it is not in the key.
  std::string name;
};

// A file that a source in CUDA C++ or OpenCL C may include, by the name that stands in its
// #include.
struct SourceHeader {
  std::string name;
  std::string text;
  friend bool operator==(const SourceHeader&, const SourceHeader&) = default;
};

// "cuda:90", "hip:gfx942", "spirv:1.2". The architecture is spelled as Triton's GPUTarget has it:
// digits for CUDA, gfx… for HIP; for SPIR-V it is the newest version that the module may have.
struct Target {
  std::string backend;
  std::string architecture;
  int warp_size = 0;  // 0: the architecture's own

  // From "backend:architecture". INVALID_ARGUMENT where it is not of that form; whether anything
  // compiles for it is another question, which the toolchain catalog answers.
  static absl::StatusOr<Target> Parse(std::string_view text);

  std::string ToString() const { return backend + ":" + architecture; }
  friend auto operator<=>(const Target&, const Target&) = default;
};

// The typed value of an option. An array on the wire or in JSON is always a tuple: Triton's option
// classes are frozen and hashed, so a list would not do.
struct OptionValue;
using OptionTuple = std::vector<OptionValue>;
struct OptionValue {
  std::variant<bool, int64_t, double, std::string, OptionTuple> value;
  friend bool operator==(const OptionValue&, const OptionValue&) = default;
};
using Options = std::map<std::string, OptionValue>;

struct Parameter {
  std::string name;
  std::string type;  // as Triton spells it: "*fp16", "i32", "tensordesc<…>"
  std::map<std::string, int64_t> attributes;  // "tt.divisibility" → 16
  std::optional<OptionValue> constant;        // folded into the code, so not passed at launch
  friend bool operator==(const Parameter&, const Parameter&) = default;
};

struct Specialization {
  std::vector<Parameter> parameters;
  friend bool operator==(const Specialization&, const Specialization&) = default;
};

// What the compiler needs to know of the launch. Absent: the toolchain's default.
struct LaunchParameters {
  std::optional<int64_t> num_warps;
  std::optional<int64_t> num_stages;
  std::optional<int64_t> num_ctas;
  std::optional<int64_t> maxnreg;
  std::optional<std::array<int64_t, 3>> cluster_dims;
  std::optional<bool> launch_pdl;
  std::optional<bool> launch_cooperative_grid;
  friend bool operator==(const LaunchParameters&, const LaunchParameters&) = default;
};

enum class CachePolicy { kUse = 1, kRefresh = 2, kOnlyIfCached = 3 };

// What a client asks for.
struct CompileRequest {
  KernelSource source;
  Target target;
  Specialization specialization;
  LaunchParameters launch;
  Options options;
  // "" (the default one), "triton==3.6.0", or the first 8 hex digits of a fingerprint or more.
  std::string toolchain;
  // Which ptxas assembles what Triton makes for CUDA: a selector like `toolchain`, in canonical
  // form the 64 hex digits of its fingerprint. "": the toolchain's own.
  std::string ptxas;
  // Headers of CUDA C++ or OpenCL C; in canonical form sorted by name.
  std::vector<SourceHeader> headers;
  // Stages whose text or bytes the reply should carry; empty: the final binary only.
  std::vector<std::string> stages;
  CachePolicy cache_policy = CachePolicy::kUse;
};

// Why a source does not compile: deterministic, so it is a value that can be kept, never a Status.
struct CompileFailure {
  // INVALID_ARGUMENT: the source or its options are wrong. RESOURCE_EXHAUSTED: it does not fit the
  // target. INTERNAL: the compiler itself failed.
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  std::string
      stage;  // "options", "parse", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco", "spv"
  std::string message;  // one line
  int line = 0;         // 1-based, in the source; 0: unknown
  int column = 0;
  std::string output;  // the compiler's own words, the end of them
  // False for a crash, a time-out or a lack of memory: another attempt might succeed, so it is not
  // kept.
  bool deterministic = true;
};

struct StageTiming {
  std::string stage;
  uint64_t micros = 0;
  friend bool operator==(const StageTiming&, const StageTiming&) = default;
};

struct KernelParameter {
  std::string name;  // "" where the source does not say
  std::string type;
  friend bool operator==(const KernelParameter&, const KernelParameter&) = default;
};

// One tensor descriptor's layout, as the launcher encodes it.
struct TensorDescriptorMetadata {
  int64_t swizzle = 0;
  int64_t elem_size = 0;
  int64_t elem_type = 0;
  std::vector<int64_t> block_size;
  bool fp4_padded = false;
  friend bool operator==(const TensorDescriptorMetadata&,
                         const TensorDescriptorMetadata&) = default;
};

// What a launcher must know. Optional fields are absent where the toolchain does not say.
struct KernelMetadata {
  std::string name;  // the entry point
  Target target;
  int64_t shared_bytes = 0;
  int64_t num_warps = 0;  // after compilation: warp specialization raises it
  int64_t num_ctas = 1;
  int64_t warp_size = 32;
  int64_t global_scratch_bytes = 0;
  int64_t global_scratch_align = 1;
  int64_t profile_scratch_bytes = 0;
  int64_t profile_scratch_align = 1;
  int64_t tensor_memory_columns = 0;
  std::array<int64_t, 3> cluster_dims{1, 1, 1};
  bool launch_pdl = false;
  bool launch_cooperative_grid = false;
  std::optional<int64_t> registers;    // per thread
  std::optional<int64_t> spill_bytes;  // per thread, stores
  std::vector<TensorDescriptorMetadata> tensor_descriptors;
  std::vector<KernelParameter> parameters;  // in the order of passing, without the hidden ones
  int64_t hidden_pointers = 0;              // pointers the launcher appends after them
  // The toolchain's own metadata, verbatim JSON: for a client that rebuilds the toolchain's cache
  // files.
  std::string toolchain_metadata;
  friend bool operator==(const KernelMetadata&, const KernelMetadata&) = default;
};

struct Provenance {
  std::string toolchain;  // "triton==3.6.0"
  Digest toolchain_fingerprint;
  std::string assembler;  // "ptxas 12.8.93", "lld (in libtriton)"
  std::string kiln_version;
  std::string host;
  int64_t compiled_unix_ms = 0;
  uint64_t compile_micros = 0;
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

struct StageBlob {
  std::string stage;
  Blob blob;
};

// The stage of that name; null where there is none. `stages` are an artifact's or a record's.
template <typename Stages>
auto FindStage(const Stages& stages, std::string_view name) -> decltype(stages.data()) {
  const auto found = std::ranges::find(stages, name, &Stages::value_type::stage);
  return found == stages.end() ? nullptr : &*found;
}

// An artifact but for its key and its stages.
struct ArtifactDocument {
  KernelMetadata metadata;
  std::vector<StageTiming> timings;
  Provenance provenance;
};

// What a key maps to. The stages are in the order of compilation; the last is the final binary.
struct Artifact : ArtifactDocument {
  Digest key;
  std::vector<StageBlob> stages;
  // The document as clients read it (daemon/rpc/reply_bytes.h): many ask for one artifact. Where a
  // store gave it, the document above has only the compile's time, and a copy of the artifact has
  // no description.
  MadeOnce<std::string> description = {};
};

// How a request was answered.
enum class Outcome { kHit = 1, kJoined = 2, kCompiled = 3 };

using ArtifactPtr = std::shared_ptr<const Artifact>;
using FailurePtr = std::shared_ptr<const CompileFailure>;

struct CompileResult {
  Outcome outcome = Outcome::kCompiled;
  std::optional<Tier> tier;  // of a hit
  std::variant<ArtifactPtr, FailurePtr> value;
  // What a fresh compile took in memory at its peak, as its worker measured; 0: nobody did.
  uint64_t peak_bytes = 0;

  // Null where the result is the other. Valid as long as the result.
  const Artifact* artifact() const {
    const auto* held = std::get_if<ArtifactPtr>(&value);
    return held == nullptr ? nullptr : held->get();
  }
  const CompileFailure* failure() const {
    const auto* held = std::get_if<FailurePtr>(&value);
    return held == nullptr ? nullptr : held->get();
  }
};

}  // namespace kiln
