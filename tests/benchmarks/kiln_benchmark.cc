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
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/cli/requests/request_file.h"
#include "client/rpc/client.h"
#include "tests/benchmarks/echo.h"
#include "tests/benchmarks/samples.h"
#include "tests/testing/temp_directory.h"

namespace kiln::benchmarks {
namespace {

// 2: the daemon gave no answer in time, as in `kiln`.
[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "kiln_benchmark: %s\n", status.ToString().c_str());
  std::exit(absl::IsUnavailable(status) ? 2 : 1);
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

// The other end of a Unix socket, in a process of its own: takes so many bytes, sends so many.
class PlainSocket {
 public:
  // REQUIRES: this process has one thread.
  PlainSocket() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::exit(1);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(ends[0]);
      uint64_t sizes[2];
      const bool is_told = ReadAll(ends[1], sizes, sizeof sizes);
      std::string bytes(is_told ? std::max(sizes[0], sizes[1]) : 0, 'x');
      while (is_told && ReadAll(ends[1], bytes.data(), sizes[0]) &&
             WriteAll(ends[1], bytes.data(), sizes[1])) {
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    socket_ = ends[0];
  }
  ~PlainSocket() {
    ::close(socket_);
    ::waitpid(child_, nullptr, 0);
  }
  PlainSocket(const PlainSocket&) = delete;
  PlainSocket& operator=(const PlainSocket&) = delete;

  void SetSizes(uint64_t request_bytes, uint64_t reply_bytes) {
    const uint64_t sizes[] = {request_bytes, reply_bytes};
    if (!WriteAll(socket_, sizes, sizeof sizes)) std::exit(1);
    request_.assign(request_bytes, 'x');
    reply_.resize(reply_bytes);
  }
  void RoundTrip() {
    if (!WriteAll(socket_, request_.data(), request_.size())) std::exit(1);
    if (!ReadAll(socket_, reply_.data(), reply_.size())) std::exit(1);
  }

 private:
  static bool ReadAll(int fd, void* bytes, size_t count) {
    return ::recv(fd, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count);
  }
  static bool WriteAll(int fd, const void* bytes, size_t count) {
    auto* at = static_cast<const char*>(bytes);
    while (count > 0) {
      const ssize_t sent = ::send(fd, at, count, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += sent;
      count -= static_cast<size_t>(sent);
    }
    return true;
  }

  pid_t child_ = -1;
  int socket_ = -1;
  std::string request_;
  std::string reply_;
};

void Hits(const std::string& path, int argc, char** argv) {
  PlainSocket plain;
  const v1::CompileRequest request = ReadRequests(path).front();
  ConnectOptions by_rpc;
  by_rpc.reads_hot_directory = false;
  const std::unique_ptr<Client> client = OrDie(Client::Connect(by_rpc));
  const v1::CompileResponse answer = OrDie(client->Compile(request));
  // The compile before the hits is published by now, since an answer follows its publication.
  const HotArtifact hot = OrDie(client->FindHot(answer.key()));

  const TempDirectory folder;
  const std::string socket = folder.File("echo.sock");
  const EchoServerProcess server(socket);
  const EchoClient echo(socket);

  const std::string file = folder.File("file");
  const size_t file_bytes = hot.document().size() + hot.description().size() + hot.binary().size();
  std::ofstream(file) << std::string(file_bytes, 'x');

  benchmark::RegisterBenchmark("EchoRpc", [&](benchmark::State& state) {
    MeasureEach(state, [&] { echo.Call(request.ByteSizeLong(), answer.ByteSizeLong()); });
  });
  benchmark::RegisterBenchmark("HitRpc", [&](benchmark::State& state) {
    MeasureEach(state, [&] {
      const v1::CompileResponse hit = OrDie(client->Compile(request));
      if (hit.outcome() != v1::OUTCOME_HIT) std::exit(1);
    });
  });
  // The first request for a kernel has to hash it.
  ConnectOptions without_memory = by_rpc;
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
  plain.SetSizes(request.ByteSizeLong(), answer.ByteSizeLong());
  benchmark::RegisterBenchmark("PlainSocket", [&](benchmark::State& state) {
    MeasureEach(state, [&] { plain.RoundTrip(); });
  });
  const std::unique_ptr<Client> reader = OrDie(Client::Connect());
  benchmark::RegisterBenchmark("HitClient", [&](benchmark::State& state) {
    MeasureEach(state, [&] {
      const v1::CompileResponse hit = OrDie(reader->Compile(request));
      if (hit.outcome() != v1::OUTCOME_HIT) std::exit(1);
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
