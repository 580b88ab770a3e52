// The micro benchmarks, and the small tools that benchmarks.py drives. Needs a running daemon
// (KILN_ROOT).
//
//   kiln_benchmark --request FILE.jsonl [Google Benchmark's flags]
//       hits against bare RPCs and bare file reads
//   kiln_benchmark --sequence FILE.jsonl [UID…]
//       compiles one after the other: {"ms": […]}; as these users in turns, which takes root
//   kiln_benchmark --echo-server SOCKET
//       the other end of the bare RPC

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/cli/requests/request_file.h"
#include "client/rpc/client.h"
#include "echo.grpc.pb.h"
#include "tests/benchmarks/echo_server.h"
#include "tests/benchmarks/samples.h"
#include "tests/testing/temp_directory.h"

namespace kiln::benchmarks {
namespace {

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "kiln_benchmark: %s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status());
  return *std::move(value);
}

std::vector<v1::CompileRequest> ReadRequests(const std::string& path) {
  std::vector<v1::CompileRequest> requests;
  cli::RequestFile file = OrDie(cli::RequestFile::Open(path));
  while (auto entry = file.Next()) {
    if (!entry->request.ok()) Die(entry->request.status());
    requests.push_back(*std::move(entry->request));
  }
  return requests;
}

void Hits(const std::string& path, int argc, char** argv) {
  const v1::CompileRequest request = ReadRequests(path).front();
  const std::unique_ptr<Client> client = OrDie(Client::Connect());
  const v1::CompileResponse answer = OrDie(client->Compile(request));
  // The compile before the hits is published by now, since an answer follows its publication.
  const HotArtifact hot = OrDie(client->FindHot(answer.key()));

  const TempDirectory folder;
  const std::string socket = folder.File("echo.sock");
  const EchoServerProcess server(socket);
  const auto echo =
      Echo::NewStub(grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
  EchoRequest echo_request;
  echo_request.set_payload(std::string(request.ByteSizeLong(), 'x'));
  echo_request.set_reply_bytes(answer.ByteSizeLong());

  const std::string file = folder.File("file");
  std::ofstream(file) << std::string(hot.document().size() + hot.binary().size(), 'x');

  benchmark::RegisterBenchmark("EchoRpc", [&](benchmark::State& state) {
    MeasureEach(state, [&] {
      grpc::ClientContext context;
      EchoReply reply;
      if (!echo->Call(&context, echo_request, &reply).ok()) std::exit(1);
    });
  });
  benchmark::RegisterBenchmark("HitRpc", [&](benchmark::State& state) {
    MeasureEach(state, [&] {
      const v1::CompileResponse hit = OrDie(client->Compile(request));
      if (hit.outcome() != v1::OUTCOME_HIT) std::exit(1);
    });
  });
  // The first request for a kernel has to hash it.
  ConnectOptions without_memory;
  without_memory.verified_bytes_max = 0;
  const std::unique_ptr<Client> first_time = OrDie(Client::Connect(without_memory));
  benchmark::RegisterBenchmark("FirstHitRpc", [&](benchmark::State& state) {
    MeasureEach(state, [&] { OrDie(first_time->Compile(request)); });
  });
  benchmark::RegisterBenchmark("OpenReadClose", [&](benchmark::State& state) {
    std::string content(1 << 20, '\0');
    MeasureEach(state, [&] {
      const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
      ssize_t got;
      while ((got = read(fd, content.data(), content.size())) > 0) benchmark::DoNotOptimize(got);
      close(fd);
    });
  });
  benchmark::RegisterBenchmark("HitHot", [&](benchmark::State& state) {
    MeasureEach(state, [&] {
      const HotArtifact found = OrDie(client->FindHot(answer.key()));
      benchmark::DoNotOptimize(found.binary().data());
    });
  });
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}

// The kernel notes the credentials of the thread that connects.
std::unique_ptr<Client> ConnectAs(uid_t uid) {
  const uid_t own = ::geteuid();
  if (::syscall(SYS_setresuid, -1, uid, -1) != 0) Die(ErrnoStatus(errno, "become another user"));
  std::unique_ptr<Client> client = OrDie(Client::Connect());
  if (::syscall(SYS_setresuid, -1, own, -1) != 0) Die(ErrnoStatus(errno, "become oneself again"));
  return client;
}

void Sequence(const std::string& path, const std::vector<std::string>& uids) {
  std::vector<std::unique_ptr<Client>> clients;
  for (const std::string& uid : uids) {
    clients.push_back(ConnectAs(static_cast<uid_t>(std::stoul(uid))));
  }
  if (clients.empty()) clients.push_back(OrDie(Client::Connect()));
  nlohmann::json millis = nlohmann::json::array();
  for (const v1::CompileRequest& request : ReadRequests(path)) {
    Client& client = *clients[millis.size() % clients.size()];
    const auto begin = std::chrono::steady_clock::now();
    OrDie(client.Compile(request));
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - begin;
    millis.push_back(elapsed.count());
  }
  std::printf("%s\n", nlohmann::json{{"ms", millis}}.dump().c_str());
}

}  // namespace
}  // namespace kiln::benchmarks

int main(int argc, char** argv) {
  using namespace kiln::benchmarks;
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "--echo-server") return RunEchoServer(argv[2]);
  if (mode == "--sequence") {
    Sequence(argv[2], {argv + 3, argv + argc});
    return 0;
  }
  if (mode == "--request") {
    Hits(argv[2], argc - 2, argv + 2);
    return 0;
  }
  std::fprintf(stderr, "usage: kiln_benchmark --request|--sequence|--echo-server FILE\n");
  return 2;
}
