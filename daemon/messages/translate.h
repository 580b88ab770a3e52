// Between the wire's messages and the domain's values (daemon/kernel/kernel.h).
//
// Towards the domain it is strict: what this daemon does not understand is an INVALID_ARGUMENT that
// names the field, since leaving it out would compile something else than the client asked for.
// Away from it nothing can fail. Pure functions.
#pragma once

#include <absl/container/inlined_vector.h>

#include <optional>
#include <span>
#include <string>

#include "daemon/kernel/kernel.h"
#include "daemon/kernel/toolchain.h"
#include "kiln/v1/kernel.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/artifact_index.h"
#include "storage/base/call_context.h"

namespace kiln {

// Takes the message apart: a source may have megabytes.
absl::StatusOr<CompileRequest> FromProto(v1::CompileRequest&& request);
absl::StatusOr<Priority> FromProto(v1::Priority priority);
// What decides which toolchain a request means, and its key.
absl::StatusOr<Toolchain> FromProto(const v1::Toolchain& toolchain);

void ToProto(const Target& target, v1::Target& out);
void ToProto(const KernelMetadata& metadata, v1::KernelMetadata& out);
void ToProto(const Provenance& provenance, v1::Provenance& out);
void ToProto(const StageTiming& timing, v1::StageTiming& out);
void ToProto(const OptionValue& value, v1::OptionValue& out);
void ToProto(const Toolchain& toolchain, v1::Toolchain& out);
void ToProto(const ToolchainCatalog& catalog, v1::ListToolchainsResponse& out);
v1::Tier ToProto(Tier tier);
// `output_bytes_max`: how much of what the compiler wrote goes along: its first notes, as many as a
// third of that holds, and the end of the output.
void ToProto(const CompileFailure& failure, const Digest& key, size_t output_bytes_max,
             v1::CompileDiagnostics& out);
// Without content.
void ToProto(const StageReference& stage, v1::StageBlob& out);

// The stages that a reply carries: those of `wanted`, or the final binary where that is empty. With
// their content unless all of it together exceeds kInlineBytesMax. INTERNAL where the artifact
// lacks one of them.
struct ReplyStages {
  absl::InlinedVector<const StageBlob*, 4> stages;
  bool is_inline = false;
};
absl::StatusOr<ReplyStages> SelectStages(const Artifact& artifact,
                                         std::span<const std::string> wanted);
// How the artifact came about and under which key: all of the reply but its stages and description.
void ToProto(const Digest& key, Outcome outcome, std::optional<Tier> tier,
             v1::CompileResponse& out);
// Metadata, timings and provenance, from an Artifact or its document.
template <typename Described, typename Message>
void DescribeTo(const Described& described, Message& out) {
  ToProto(described.metadata, *out.mutable_metadata());
  for (const StageTiming& timing : described.timings) ToProto(timing, *out.add_timings());
  ToProto(described.provenance, *out.mutable_provenance());
}
// The whole reply. Errors of SelectStages.
absl::Status ToProto(const Artifact& artifact, Outcome outcome, std::optional<Tier> tier,
                     std::span<const std::string> wanted, v1::CompileResponse& out);

}  // namespace kiln
