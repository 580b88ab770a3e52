#include "daemon/worker/native_worker/job_server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/worker/frame.h"
#include "daemon/worker/json_reader.h"
#include "daemon/worker/native_worker/messages.h"

namespace kiln {
namespace {

constexpr size_t kPathBytesMax = 4096;

absl::Status LimitResource(int resource, uint64_t value) {
  if (value == 0) return absl::OkStatus();
  const rlimit limit{value, value};
  if (::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "limit a worker");
}

absl::Status Confine(const Surroundings& surroundings) {
  const std::string& directory = surroundings.directory;
  if (::chdir(directory.c_str()) != 0) return ErrnoStatus(errno, "enter " + directory);
  for (const char* name : {"HOME", "TMPDIR"}) ::setenv(name, directory.c_str(), 1);
  ::umask(077);
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_CORE, &none) != 0) return ErrnoStatus(errno, "forbid core dumps");
  KILN_RETURN_IF_ERROR(LimitResource(RLIMIT_FSIZE, surroundings.file_bytes));
  KILN_RETURN_IF_ERROR(LimitResource(RLIMIT_AS, surroundings.address_space_bytes));
  DoNotRandomizePrograms();
  // When memory runs out, a worker goes before the daemon and before the job whose kernel it
  // compiles. Best effort: a sandbox may forbid it.
  std::ofstream("/proc/self/oom_score_adj") << 800;
  return absl::OkStatus();
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

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

WorkerReply CompileMeasured(NativeCompiler& compiler, const CompileRequest& request) {
  const uint64_t cpu_before = CpuMicros();
  const auto started = std::chrono::steady_clock::now();
  WorkerReply reply = compiler.Compile(request);
  const auto took = std::chrono::steady_clock::now() - started;
  reply.usage.cpu_micros = CpuMicros() - cpu_before;
  reply.usage.wall_micros =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
  reply.usage.rss_bytes = ResidentBytes();
  return reply;
}

// UNAVAILABLE when the daemon wants no more; everything else is a mistake of one of the two.
absl::Status ServeOneJob(NativeCompiler& compiler, int job) {
  KILN_ASSIGN_OR_RETURN(Frame frame, ReceiveFrame(job, {}));
  const uint32_t id = frame.id;
  KILN_ASSIGN_OR_RETURN(const CompileRequest request, DecodeCompile(std::move(frame)));
  const ResultMessage result = EncodeResult(CompileMeasured(compiler, request));
  return SendFrame(job, FrameType::kResult, id, result.header, result.payload, {});
}

}  // namespace

absl::StatusOr<Surroundings> Surroundings::Parse(const nlohmann::json& request) {
  JsonReader reader(request, "a fork request");
  Surroundings surroundings;
  surroundings.directory = reader.String("directory", kPathBytesMax);
  JsonReader limits(reader.Object("limits"), "a fork request's limits");
  surroundings.file_bytes = limits.Count("file_bytes", UINT64_MAX);
  surroundings.address_space_bytes = limits.Count("address_space_bytes", UINT64_MAX);
  KILN_RETURN_IF_ERROR(reader.status());
  KILN_RETURN_IF_ERROR(limits.status());
  return surroundings;
}

void ServeJobs(NativeCompiler& compiler, const Surroundings& surroundings, UniqueFd job,
               UniqueFd output) {
  ::dup2(output.get(), STDOUT_FILENO);
  ::dup2(output.get(), STDERR_FILENO);
  output.Reset();
  absl::Status status = Confine(surroundings);
  while (status.ok()) status = ServeOneJob(compiler, job.get());
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
