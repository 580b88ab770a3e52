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

absl::StatusOr<CompileResult> WithAnswer(CompileResult compiled,
                                         absl::StatusOr<WorkerReply> reply) {
  if (!reply.ok()) return Annotate(reply.status(), "disassembling");
  if (reply->outcome != WorkerReply::Outcome::kCompiled) {
    return FailedPrecondition(
        "the kernel compiled, but is not disassembled: {}. A newer CUDA toolkit's nvdisasm knows "
        "more; or leave the stage {} out",
        reply->failure.message, kSassStage);
  }
  compiled.value = WithSass(*compiled.artifact(), *std::move(reply));
  return compiled;
}

absl::Status NoDisassembler() {
  return FailedPrecondition(
      "the stage {} takes nvdisasm, and none that works is in this daemon's toolchain directories: "
      "a CUDA toolkit brings one, and so does Triton. Install one (kiln toolchain add "
      "triton==3.6.0; of another make, kiln toolchain reload), or leave that stage out",
      kSassStage);
}

// Nobody waits for such an answer, and it says nothing of the program.
bool SaysNothing(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

DisassemblingProvider::DisassemblingProvider(std::unique_ptr<CompilationProvider> next,
                                             std::function<Disassembler()> find,
                                             OnToolchainChange on_change)
    : next_(std::move(next)), find_(std::move(find)), on_change_(std::move(on_change)) {}

void DisassemblingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  const auto& wanted = job->request.stages;
  if (std::find(wanted.begin(), wanted.end(), kSassStage) == wanted.end()) {
    return next_->Compile(std::move(context), std::move(job), std::move(done));
  }
  // Before anything is compiled in vain.
  if (find_().pool == nullptr) return done(NoDisassembler());
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
                   Disassemble(find_(), later, *std::move(result), done);
                 });
}

void DisassemblingProvider::Disassemble(const Disassembler& disassembler, CallContext context,
                                        CompileResult compiled, CompileDone done) {
  if (disassembler.pool == nullptr) return done(NoDisassembler());
  const auto artifact = std::get<0>(compiled.value);
  const Blob* const cubin = FindCubin(*artifact);
  if (cubin == nullptr) return done(Internal("a result without the cubin to disassemble"));
  WorkerRequest request;
  request.header = kDisassemblyHeader;
  request.payload = cubin->bytes();
  request.stages = {std::string(kSassStage)};
  request.owner = artifact;
  disassembler.pool->Submit(
      std::move(context), std::move(request),
      [this, toolchain = disassembler.toolchain, compiled = std::move(compiled),
       done = std::move(done)](absl::StatusOr<WorkerReply> reply) mutable {
        if (SaysNothing(reply.status())) return done(reply.status());
        const absl::Status same = CheckUnchanged(*toolchain, on_change_);
        done(same.ok() ? WithAnswer(std::move(compiled), std::move(reply)) : same);
      });
}

void DisassemblingProvider::Raise(const Digest& key, const CallContext& waiter) {
  next_->Raise(key, waiter);
}

std::string DisassemblingProvider::Describe() const {
  return fmt::format("disassembling({})", next_->Describe());
}

}  // namespace kiln
