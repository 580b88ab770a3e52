#include "daemon/worker/native/job_server.h"

#include <stdlib.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/process/frame.h"
#include "daemon/process/json_reader.h"
#include "daemon/sandbox/enter_jail.h"
#include "daemon/sandbox/work_mount.h"
#include "daemon/worker/native/messages.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr size_t kPathBytesMax = 4096;

// What failed goes to `problems`, unless this worker cannot work at all.
absl::Status Settle(const Surroundings& surroundings, std::vector<std::string>& problems) {
  const std::string& directory = surroundings.directory;
  if (surroundings.limits.disk_bytes != 0) {
    const absl::Status mounted =
        MountWorkDirectory(directory, surroundings.limits,
                           surroundings.jail ? surroundings.jail->view : std::vector<ViewEntry>());
    if (!mounted.ok()) problems.emplace_back(Message(mounted));
  }
  if (::chdir(directory.c_str()) != 0) return ErrnoStatus(errno, "enter " + directory);
  for (const char* name : {"HOME", "TMPDIR"}) ::setenv(name, directory.c_str(), 1);
  ::umask(077);
  DoNotRandomizePrograms();
  return absl::OkStatus();
}

// The last thing before it reads its job. Whether it is in a jail that hides other files.
absl::StatusOr<bool> Confine(const Surroundings& surroundings, std::vector<std::string> problems,
                             int job) {
  const auto add = [&problems](const std::vector<std::string>& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  add(SetLimits(surroundings.limits));
  if (surroundings.jail) add(EnterJail(*surroundings.jail));
  KILN_RETURN_IF_ERROR(SendFrame(job, FrameType::kReady, 0, EncodeReadyHeader(problems), {}, {}));
  return surroundings.jail && surroundings.jail->handled_files != 0 && problems.empty();
}

// What this process has taken so far, and what it has started and waited for.
struct Taken {
  uint64_t cpu_micros = 0;
  uint64_t peak_bytes = 0;  // of this process alone, since it was forked
};

Taken TakenSoFar() {
  Taken taken;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (::getrusage(who, &usage) != 0) continue;
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      taken.cpu_micros +=
          static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
    }
    if (who == RUSAGE_SELF) {
      taken.peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) * limits::kKiB;
    }
  }
  return taken;
}

WorkerReply CompileMeasured(NativeCompiler& compiler, const CompileRequest& request) {
  const Taken before = TakenSoFar();
  const auto started = std::chrono::steady_clock::now();
  WorkerReply reply = compiler.Compile(request);
  reply.usage.wall_micros = MicrosSince(started);
  const Taken after = TakenSoFar();
  reply.usage.cpu_micros = after.cpu_micros - before.cpu_micros;
  // Beside what it started and waited for. What it held before, it shares with its zygote.
  reply.usage.peak_bytes += after.peak_bytes - before.peak_bytes;
  return reply;
}

WorkerReply RefuseOutsideJail() {
  return FailedReply(
      "options", FailedPrecondition(
                     "the source can include any file of this machine, so it compiles in a jail "
                     "only, and this worker is not in a whole one; kiln doctor says why"));
}

// UNAVAILABLE when the daemon is gone; everything else is a mistake of one of the two.
absl::Status ServeJob(NativeCompiler& compiler, bool is_jailed, int job) {
  KILN_ASSIGN_OR_RETURN(const Frame frame, ReceiveFrame(job, {}));
  KILN_ASSIGN_OR_RETURN(const CompileRequest request, DecodeCompile(frame));
  const bool may_compile = is_jailed || !compiler.NeedsJail();
  const ResultMessage result =
      EncodeResult(may_compile ? CompileMeasured(compiler, request) : RefuseOutsideJail());
  return SendFrame(job, FrameType::kResult, frame.id, result.header, result.payload, {});
}

// Until the daemon ends this process, after its answer.
absl::Status Work(NativeCompiler& compiler, const Surroundings& surroundings, int job) {
  std::vector<std::string> problems;
  KILN_RETURN_IF_ERROR(Settle(surroundings, problems));
  KILN_ASSIGN_OR_RETURN(const bool is_jailed, Confine(surroundings, std::move(problems), job));
  while (true) KILN_RETURN_IF_ERROR(ServeJob(compiler, is_jailed, job));
}

}  // namespace

absl::StatusOr<Surroundings> Surroundings::Parse(const nlohmann::json& request) {
  JsonReader reader(request, "a fork request");
  Surroundings surroundings;
  surroundings.directory = reader.String("directory", kPathBytesMax);
  const nlohmann::json& limits = reader.Object("limits");
  KILN_RETURN_IF_ERROR(reader.status());
  KILN_ASSIGN_OR_RETURN(surroundings.limits, DecodeLimits(limits));
  if (reader.Has("jail")) {
    KILN_ASSIGN_OR_RETURN(surroundings.jail, DecodeJail(request["jail"]));
  }
  return surroundings;
}

void RunWorker(NativeCompiler& compiler, const Surroundings& surroundings, UniqueFd job,
               UniqueFd output) {
  ::dup2(output.get(), STDOUT_FILENO);
  ::dup2(output.get(), STDERR_FILENO);
  output.Reset();
  const absl::Status status = Work(compiler, surroundings, job.get());
  const bool is_over = absl::IsUnavailable(status);
  if (!is_over) std::fprintf(stderr, "kiln-worker: %s\n", std::string(Message(status)).c_str());
  std::fflush(stderr);
  ::_exit(is_over ? 0 : 1);
}

void DoNotRandomizePrograms() {
  constexpr unsigned long kAsk = 0xffffffff;
  const int current = ::personality(kAsk);
  if (current != -1) ::personality(static_cast<unsigned long>(current) | ADDR_NO_RANDOMIZE);
}

}  // namespace kiln
