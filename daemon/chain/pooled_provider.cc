#include "daemon/chain/pooled_provider.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "daemon/process/allocator.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::shared_ptr<Artifact> MakeArtifact(const CompileJob& job, const Toolchain& toolchain,
                                       WorkerReply reply) {
  auto artifact = std::make_shared<Artifact>();
  artifact->key = job.key;
  artifact->metadata = std::move(reply.metadata);
  artifact->metadata.target = job.request.target;
  artifact->timings = std::move(reply.timings);
  artifact->provenance.toolchain = toolchain.Name();
  artifact->provenance.toolchain_fingerprint = toolchain.fingerprint;
  artifact->provenance.assembler = std::move(reply.assembler);
  artifact->provenance.kiln_version = KILN_VERSION;
  artifact->provenance.compile_micros = reply.usage.wall_micros;
  for (StageOutput& stage : reply.stages) {
    artifact->stages.push_back({std::move(stage.stage), Blob::FromBytes(std::move(stage.bytes))});
  }
  return artifact;
}

// What every zygote has in common.
ZygoteCommand CommandOf(const Toolchain& toolchain, const std::string& directory) {
  ZygoteCommand command;
  // All of it: what a compile gives must not depend on who started the daemon.
  command.spawn.environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + directory,
                               "TMPDIR=" + directory};
  command.spawn.directory = directory;
  command.name = toolchain.Name();
  command.seal = toolchain.seal;
  command.version = toolchain.version;
  return command;
}

}  // namespace

PooledProvider::PooledProvider(std::shared_ptr<const Toolchain> toolchain,
                               WorkerPoolOptions options, const Clock& clock)
    : toolchain_(std::move(toolchain)),
      clock_(clock),
      host_(HostName()),
      pool_(std::move(options)) {}

void PooledProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  const BackendDescription* backend = toolchain_->FindBackend(job->request.target.backend);
  if (backend == nullptr) {
    return done(FailedPrecondition("{} has no backend {}", toolchain_->Name(),
                                   job->request.target.backend));
  }
  std::string header = EncodeCompileHeader(job->request, job->ptxas.get());
  if (header.size() > limits::kFrameHeaderBytesMax) {
    return done(InvalidArgument(
        "the request's parameters and options make {} bytes of JSON; a worker takes {}: give fewer "
        "or shorter ones",
        header.size(), limits::kFrameHeaderBytesMax));
  }
  WorkerRequest request;
  request.key = job->key;
  request.header = std::move(header);
  request.payload = job->request.source.text;
  request.stages = backend->StagesOf(job->request.source.kind, job->request.options);
  request.owner = job;
  if (!job->request.headers.empty()) {
    const auto joined = std::make_shared<const std::string>(CompilePayload(job->request));
    request.payload = *joined;
    request.owner = joined;
  }
  pool_.Submit(std::move(context), std::move(request),
               [this, job, done = std::move(done)](absl::StatusOr<WorkerReply> reply) {
                 if (!reply.ok()) return done(Annotate(reply.status(), Describe()));
                 CompileResult result;
                 result.peak_bytes = reply->usage.peak_bytes;
                 if (reply->outcome == WorkerReply::Outcome::kFailed) {
                   result.value = std::make_shared<const CompileFailure>(std::move(reply->failure));
                 } else {
                   auto artifact = MakeArtifact(*job, *toolchain_, *std::move(reply));
                   artifact->provenance.host = host_;
                   artifact->provenance.compiled_unix_ms = clock_.UnixMillis();
                   result.value = std::shared_ptr<const Artifact>(std::move(artifact));
                 }
                 done(std::move(result));
               });
}

std::string PooledProvider::Describe() const {
  return fmt::format("pooled({}-{})", toolchain_->name, toolchain_->version);
}

ZygoteCommand TritonZygoteCommand(const Toolchain& toolchain, const std::string& script,
                                  const std::string& directory, const std::string& allocator) {
  ZygoteCommand command = CommandOf(toolchain, directory);
  // -I: neither the environment, nor the user's packages, nor the current directory has a say.
  // -B: a finished toolchain is not written to, not even bytecode.
  command.spawn.arguments = {toolchain.interpreter, "-I", "-B", script, "--zygote",
                             "--control-fd",        "3"};
  for (const BackendDescription& backend : toolchain.backends) {
    command.spawn.arguments.insert(command.spawn.arguments.end(), {"--backend", backend.backend});
  }
  command.spawn.environment.push_back("TRITON_CACHE_DIR=" + directory);
  // A Python with a C library of its own may not be able to load it.
  command.preferences = AllocatorEnvironment(allocator);
  return command;
}

ZygoteCommand NativeZygoteCommand(const Toolchain& toolchain, const std::string& program,
                                  const std::string& directory, const std::string& allocator) {
  ZygoteCommand command = CommandOf(toolchain, directory);
  command.spawn.arguments = {
      program, "--zygote", "--control-fd", "3", "--" + toolchain.name, toolchain.directory};
  for (const std::string& include : toolchain.includes) {
    command.spawn.arguments.insert(command.spawn.arguments.end(), {"--include", include});
  }
  command.preferences = AllocatorEnvironment(allocator);
  return command;
}

}  // namespace kiln
