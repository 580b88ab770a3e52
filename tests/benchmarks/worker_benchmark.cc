// What a worker costs beyond its compiles, measured on the real worker program in
// $KILN_TEST_TOOLCHAINS:
//
//   worker_benchmark SOURCE.ttir…
//
// prints one JSON object: how long replacing a dead worker takes, what memory a new one has to
// itself, and how long the sources (for cuda:90) take in and out of the jail, in turns.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/chain/pooled_provider.h"
#include "daemon/pool/worker_process.h"
#include "tests/testing/real_toolchains.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using Steady = std::chrono::steady_clock;

constexpr int kReplacements = 50;
constexpr int kRounds = 5;

template <typename T>
T OrDie(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "worker_benchmark: %s\n", std::string(Message(result.status())).c_str());
  std::exit(EXIT_FAILURE);
}

double MillisSince(Steady::time_point start) {
  return std::chrono::duration<double, std::milli>(Steady::now() - start).count();
}

// A zygote, and a directory for its workers.
struct Side {
  explicit Side(Jail::Mode mode) {
    ZygoteCommand command = TritonZygoteCommand(*RealTriton(), WorkerScript(),
                                                directory.File("zygote"), InstalledJemalloc());
    std::filesystem::create_directory(command.spawn.directory);
    command.jail = std::make_shared<Jail>(mode, JailSupport::OfThisKernel());
    zygote = OrDie(Zygote::Start(command, stop));
  }
  std::unique_ptr<WorkerProcess> Start() {
    return OrDie(WorkerProcess::Start(zygote, directory.File("slot"), {}));
  }

  TempDirectory directory;
  WakeEvent stop;
  std::shared_ptr<Zygote> zygote;
};

WorkerRequest RequestFor(const std::string& path) {
  CompileRequest request;
  request.source.text = ReadFileOrDie(path);
  request.target = {"cuda", "90", 0};
  auto text = std::make_shared<const std::string>(request.source.text);
  WorkerRequest encoded;
  encoded.header = EncodeCompileHeader(request, nullptr);
  encoded.payload = *text;
  encoded.stages = RealTriton()->FindBackend("cuda")->stages;
  encoded.owner = text;
  return encoded;
}

// From a worker that is dead to one that would compile.
std::vector<double> Replacements(Side& side) {
  std::vector<double> millis;
  auto worker = side.Start();
  for (int i = 0; i < kReplacements; ++i) {
    worker->Kill();
    const auto start = Steady::now();
    worker.reset();
    worker = side.Start();
    millis.push_back(MillisSince(start));
  }
  return millis;
}

double PrivateMegabytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
  double kilobytes = 0;
  for (std::string word; file >> word;) {
    double value = 0;
    if (word.starts_with("Private_") && file >> value) kilobytes += value;
  }
  return kilobytes / 1024;
}

// Right after the fork, in its jail, before its first compile.
std::vector<double> PrivateMemory(Side& side) {
  std::vector<double> megabytes;
  for (int i = 0; i < kReplacements; ++i) {
    std::array<int, 2> sockets{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) std::exit(1);
    const UniqueFd ours(sockets[0]);
    const UniqueFd theirs(sockets[1]);
    const pid_t worker =
        OrDie(side.zygote->Fork(theirs.get(), STDERR_FILENO, side.directory.path(), {}));
    megabytes.push_back(PrivateMegabytes(worker));
    side.zygote->EndWorker(worker);
  }
  return megabytes;
}

double Compile(WorkerProcess& worker, const std::vector<WorkerRequest>& requests) {
  const auto start = Steady::now();
  for (const WorkerRequest& request : requests) OrDie(worker.Run(request, {}));
  return MillisSince(start);
}

int Measure(int count, char** paths) {
  std::vector<WorkerRequest> requests;
  for (int i = 0; i < count; ++i) requests.push_back(RequestFor(paths[i]));
  Side jailed(Jail::Mode::kRequired);
  Side free(Jail::Mode::kOff);
  nlohmann::json report = {{"replace_ms", Replacements(jailed)},
                           {"private_mb", PrivateMemory(jailed)},
                           {"jailed_ms", nlohmann::json::array()},
                           {"free_ms", nlohmann::json::array()}};
  const auto inside = jailed.Start();
  const auto outside = free.Start();
  Compile(*inside, requests);
  Compile(*outside, requests);
  for (int round = 0; round < kRounds; ++round) {
    // Each kernel in turns, so that whatever slows the machine for a moment slows both.
    double jailed_ms = 0;
    double free_ms = 0;
    for (const WorkerRequest& request : requests) {
      jailed_ms += Compile(*inside, {request});
      free_ms += Compile(*outside, {request});
    }
    report["jailed_ms"].push_back(jailed_ms);
    report["free_ms"].push_back(free_ms);
  }
  std::printf("%s\n", report.dump().c_str());
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Measure(argc - 1, argv + 1); }
