#include "daemon/worker/disassembling_provider.h"

#include <algorithm>
#include <utility>

#include "daemon/compile/stage_names.h"
#include "daemon/worker/worker_protocol.h"

namespace kiln {
namespace {

// As a worker that knows nothing but cubins reads it.
constexpr std::string_view kDisassemblyHeader =
    R"({"kind": "cubin", "backend": "cuda", "architecture": "", "warp_size": 0, "options": {}})";

const Blob* FindCubin(const Artifact& artifact) {
  const auto found = std::find_if(artifact.stages.begin(), artifact.stages.end(),
                                  [](const StageBlob& each) { return each.stage == kCubinStage; });
  return found == artifact.stages.end() ? nullptr : &found->blob;
}

std::shared_ptr<const Artifact> WithSass(const Artifact& artifact, WorkerReply reply) {
  auto more = std::make_shared<Artifact>(artifact);
  for (StageOutput& stage : reply.stages) {
    more->stages.push_back({std::move(stage.stage), Blob::FromBytes(std::move(stage.bytes))});
  }
  more->timings.insert(more->timings.end(), reply.timings.begin(), reply.timings.end());
  more->provenance.assembler += ", " + reply.assembler;
  return more;
}

}  // namespace

DisassemblingProvider::DisassemblingProvider(std::unique_ptr<CompilationProvider> next,
                                             std::unique_ptr<WorkerPool> pool)
    : next_(std::move(next)), pool_(std::move(pool)) {}

void DisassemblingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  const auto& wanted = job->request.stages;
  if (std::find(wanted.begin(), wanted.end(), kSassStage) == wanted.end()) {
    return next_->Compile(std::move(context), std::move(job), std::move(done));
  }
  if (pool_ == nullptr) {
    return done(FailedPrecondition(
        "the stage {} takes nvdisasm, and none is in this daemon's toolchain directories: a CUDA "
        "toolkit brings one, and so does Triton (deploy/install-toolchain 3.6.0). Install one and "
        "start kilnd again, or leave that stage out",
        kSassStage));
  }
  auto without = std::make_shared<CompileJob>(*job);
  std::erase(without->request.stages, kSassStage);
  // Before the call that it is an argument of moves the context.
  CallContext later = context;
  next_->Compile(std::move(context), std::move(without),
                 [this, later = std::move(later),
                  done = std::move(done)](absl::StatusOr<CompileResult> result) {
                   if (!result.ok() || result->artifact() == nullptr) {
                     return done(std::move(result));
                   }
                   Disassemble(later, *std::move(result), done);
                 });
}

void DisassemblingProvider::Disassemble(CallContext context, CompileResult compiled,
                                        CompileDone done) {
  const auto artifact = std::get<0>(compiled.value);
  const Blob* const cubin = FindCubin(*artifact);
  if (cubin == nullptr) return done(Internal("a result without the cubin to disassemble"));
  WorkerRequest request;
  request.header = kDisassemblyHeader;
  request.payload = cubin->bytes();
  request.stages = {std::string(kSassStage)};
  request.owner = artifact;
  pool_->Submit(std::move(context), std::move(request),
                [artifact, compiled = std::move(compiled),
                 done = std::move(done)](absl::StatusOr<WorkerReply> reply) mutable {
                  if (!reply.ok()) return done(Annotate(reply.status(), "disassembling"));
                  if (reply->outcome != WorkerReply::Outcome::kCompiled) {
                    return done(FailedPrecondition(
                        "the kernel compiled, but is not disassembled: {}. A newer CUDA toolkit's "
                        "nvdisasm knows more; or leave the stage {} out",
                        reply->failure.message, kSassStage));
                  }
                  compiled.value = WithSass(*artifact, *std::move(reply));
                  done(std::move(compiled));
                });
}

void DisassemblingProvider::Raise(const Digest& key, Priority priority) {
  next_->Raise(key, priority);
}

std::string DisassemblingProvider::Describe() const {
  return pool_ == nullptr ? next_->Describe() : fmt::format("disassembling({})", next_->Describe());
}

}  // namespace kiln
