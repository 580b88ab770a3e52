#include "daemon/chain/sass_provider.h"

#include <utility>

#include "daemon/kernel/stage_names.h"
#include "daemon/worker/worker_protocol.h"

namespace kiln {
namespace {

// As a worker that knows nothing but cubins reads it.
constexpr std::string_view kDisassemblyHeader =
    R"({"kind": "cubin", "backend": "cuda", "architecture": "", "warp_size": 0, "options": {}})";

absl::StatusOr<CompileResult> ResultOf(absl::StatusOr<WorkerReply> reply) {
  if (!reply.ok()) return reply.status();
  if (reply->outcome != WorkerReply::Outcome::kCompiled) {
    return FailedPrecondition(
        "the kernel compiled, but is not disassembled: {}. A newer CUDA toolkit's nvdisasm knows "
        "more; or leave the stage {} out",
        reply->failure.message, kSassStage);
  }
  auto artifact = std::make_shared<Artifact>();
  for (StageOutput& stage : reply->stages) {
    artifact->stages.push_back({std::move(stage.stage), Blob::FromBytes(std::move(stage.bytes))});
  }
  artifact->timings = std::move(reply->timings);
  artifact->provenance.assembler = std::move(reply->assembler);
  CompileResult result;
  result.value = std::shared_ptr<const Artifact>(std::move(artifact));
  result.peak_bytes = reply->usage.peak_bytes;
  return result;
}

// Nobody waits for such an answer, and it says nothing of the program.
bool SaysNothing(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

absl::Status NoDisassembler() {
  return FailedPrecondition(
      "the stage {} takes nvdisasm, and none that works is in this daemon's toolchain directories: "
      "a CUDA toolkit brings one, and so does Triton. Install one (kiln toolchain add "
      "triton==3.6.0; of another make, kiln toolchain reload), or leave that stage out",
      kSassStage);
}

void SassProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  const Disassembler disassembler = find_();
  if (disassembler.pool == nullptr) return done(NoDisassembler());
  WorkerRequest request;
  request.header = kDisassemblyHeader;
  request.payload = job->request.source.text;
  request.stages = {std::string(kSassStage)};
  request.owner = job;
  disassembler.pool->Submit(std::move(context), std::move(request),
                            [this, toolchain = disassembler.toolchain,
                             done = std::move(done)](absl::StatusOr<WorkerReply> reply) mutable {
                              if (SaysNothing(reply.status())) return done(reply.status());
                              const absl::Status same = CheckUnchanged(*toolchain, on_change_);
                              done(same.ok() ? ResultOf(std::move(reply)) : same);
                            });
}

}  // namespace kiln
