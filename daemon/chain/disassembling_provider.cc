#include "daemon/chain/disassembling_provider.h"

#include <algorithm>
#include <utility>

#include "daemon/kernel/stage_names.h"

namespace kiln {
namespace {

const Blob* FindCubin(const Artifact& artifact) {
  const auto found = std::find_if(artifact.stages.begin(), artifact.stages.end(),
                                  [](const StageBlob& each) { return each.stage == kCubinStage; });
  return found == artifact.stages.end() ? nullptr : &found->blob;
}

std::shared_ptr<const Artifact> WithSass(const Artifact& artifact, const Artifact& sass) {
  auto more = std::make_shared<Artifact>(artifact);
  more->stages.insert(more->stages.end(), sass.stages.begin(), sass.stages.end());
  more->timings.insert(more->timings.end(), sass.timings.begin(), sass.timings.end());
  more->provenance.assembler += ", " + sass.provenance.assembler;
  return more;
}

}  // namespace

DisassemblingProvider::DisassemblingProvider(std::unique_ptr<CompilationProvider> next,
                                             std::function<Disassembler()> find,
                                             std::unique_ptr<CompilationProvider> disassembler)
    : next_(std::move(next)), find_(std::move(find)), disassembler_(std::move(disassembler)) {}

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
  const Blob* const cubin = FindCubin(*compiled.artifact());
  if (cubin == nullptr) return done(Internal("a result without the cubin to disassemble"));
  auto job = std::make_shared<CompileJob>();
  job->request.source.text = cubin->bytes();
  job->request.target = compiled.artifact()->metadata.target;
  job->toolchain = disassembler.toolchain;
  job->key = compiled.artifact()->key;
  disassembler_->Compile(std::move(context), std::move(job),
                         [compiled = std::move(compiled),
                          done = std::move(done)](absl::StatusOr<CompileResult> sass) mutable {
                           if (!sass.ok()) return done(Annotate(sass.status(), "disassembling"));
                           compiled.value = WithSass(*compiled.artifact(), *sass->artifact());
                           done(std::move(compiled));
                         });
}

void DisassemblingProvider::Raise(const Digest& key, const CallContext& waiter) {
  next_->Raise(key, waiter);
}

std::string DisassemblingProvider::Describe() const {
  return fmt::format("disassembling({})", next_->Describe());
}

}  // namespace kiln
