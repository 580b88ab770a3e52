#include "daemon/worker/native/job_server.h"

#include <poll.h>
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
#include "daemon/worker/native/memory_use.h"
#include "daemon/worker/native/messages.h"

namespace kiln {
namespace {

constexpr size_t kPathBytesMax = 4096;

// What failed goes to `problems`, unless this worker cannot work at all.
absl::Status Settle(const Surroundings& surroundings, std::vector<std::string>& problems) {
  const std::string& directory = surroundings.directory;
  if (surroundings.limits.disk_bytes != 0) {
    const absl::Status mounted = MountWorkDirectory(directory, surroundings.limits);
    if (!mounted.ok()) problems.emplace_back(Message(mounted));
  }
  if (::chdir(directory.c_str()) != 0) return ErrnoStatus(errno, "enter " + directory);
  for (const char* name : {"HOME", "TMPDIR"}) ::setenv(name, directory.c_str(), 1);
  ::umask(077);
  DoNotRandomizePrograms();
  return absl::OkStatus();
}

// The last thing before it reads its first job. Whether it is in a jail that hides other files.
bool Confine(const Surroundings& surroundings, std::vector<std::string> problems, UniqueFd told) {
  for (std::string& problem : SetLimits(surroundings.limits)) {
    problems.push_back(std::move(problem));
  }
  if (surroundings.jail) {
    for (std::string& problem : EnterJail(*surroundings.jail)) {
      problems.push_back(std::move(problem));
    }
  }
  const std::string text =
      nlohmann::json(problems).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // A zygote that is gone takes this process along.
  (void)!::write(told.get(), text.data(), text.size());
  return surroundings.jail && surroundings.jail->handled_files != 0 && problems.empty();
}

bool IsReadable(int socket) {
  pollfd polled{socket, POLLIN, 0};
  return ::poll(&polled, 1, 0) != 0;
}

uint64_t CpuMicros() {
  uint64_t micros = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (::getrusage(static_cast<__rusage_who_t>(who), &usage) != 0) continue;
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      micros +=
          static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
    }
  }
  return micros;
}

// Stands in for a compiler that must not run here.
class RefusingCompiler final : public NativeCompiler {
 public:
  explicit RefusingCompiler(NativeCompiler& refused) : refused_(refused) {}

  std::string Version() const override { return refused_.Version(); }
  std::vector<std::string> Programs() const override { return {}; }
  absl::StatusOr<nlohmann::json> Describe() override { return refused_.Describe(); }
  absl::Status Warm() override { return absl::OkStatus(); }
  WorkerReply Compile(const CompileRequest&) override {
    return FailedReply(
        "options", FailedPrecondition(
                       "CUDA C++ can include any file of this machine, so it compiles in a jail "
                       "only, and this worker is not in a whole one; kiln doctor says why"));
  }

 private:
  NativeCompiler& refused_;
};

WorkerReply CompileMeasured(NativeCompiler& compiler, const CompileRequest& request,
                            MemoryUse& memory) {
  memory.ResetPeak();
  const uint64_t cpu_before = CpuMicros();
  const auto started = std::chrono::steady_clock::now();
  WorkerReply reply = compiler.Compile(request);
  const auto took = std::chrono::steady_clock::now() - started;
  reply.usage.cpu_micros = CpuMicros() - cpu_before;
  reply.usage.wall_micros =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
  reply.usage.rss_bytes = memory.ResidentBytes();
  // Beside what it started and waited for.
  reply.usage.peak_bytes += memory.PeakBytes();
  return reply;
}

// UNAVAILABLE when the daemon wants no more; everything else is a mistake of one of the two.
absl::Status ServeOneJob(NativeCompiler& compiler, int job, const WorkerLimits& limits,
                         MemoryUse& memory) {
  KILN_ASSIGN_OR_RETURN(Frame frame, ReceiveFrame(job, {}));
  const uint32_t id = frame.id;
  KILN_ASSIGN_OR_RETURN(const CompileRequest request, DecodeCompile(std::move(frame)));
  ExtendCpuTime(limits);
  const ResultMessage result = EncodeResult(CompileMeasured(compiler, request, memory));
  return SendFrame(job, FrameType::kResult, id, result.header, result.payload, {});
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

void ServeJobs(NativeCompiler& compiler, const Surroundings& surroundings,
               const TouchedMemory& touched, UniqueFd job, UniqueFd output, UniqueFd told) {
  ::dup2(output.get(), STDOUT_FILENO);
  ::dup2(output.get(), STDERR_FILENO);
  output.Reset();
  std::vector<std::string> problems;
  absl::Status status = Settle(surroundings, problems);
  MemoryUse memory;
  const bool is_jailed = status.ok() && Confine(surroundings, std::move(problems), std::move(told));
  touched.TouchAgain([&job] { return IsReadable(job.get()); });
  RefusingCompiler refusing(compiler);
  NativeCompiler& allowed =
      compiler.NeedsJail() && !is_jailed ? static_cast<NativeCompiler&>(refusing) : compiler;
  while (status.ok()) status = ServeOneJob(allowed, job.get(), surroundings.limits, memory);
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
