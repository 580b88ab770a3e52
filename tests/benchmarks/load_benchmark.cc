// What a daemon bears: many processes that ask at once, and many requests in one batch.
//
//   load_benchmark FILE.jsonl PROCESSES SECONDS
//
// Asks the daemon of KILN_ROOT for the file's first kernel, which it has. Prints
// {"hits_per_s": …, "echoes_per_s": …, "batch_us": …, "batch_cpu_us": …}: requests of all processes
// together, the same of a bare gRPC server that neither parses nor serializes, and a hit's share of
// a batch of 1000, with the client's processor time.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cli/requests/request_file.h"
#include "client/rpc/client.h"
#include "tests/benchmarks/echo.h"
#include "tests/testing/temp_directory.h"

namespace kiln::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;
using Call = std::function<void()>;

constexpr int kBatch = 1000;
constexpr int kTurns = 5;

void Check(bool is_well, const std::string& what) {
  if (is_well) return;
  std::fprintf(stderr, "load_benchmark: %s\n", what.c_str());
  std::exit(1);
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  Check(value.ok(), value.status().ToString());
  return *std::move(value);
}

v1::CompileRequest FirstRequest(const std::string& path) {
  cli::RequestFile file = OrDie(cli::RequestFile::Open(path));
  auto entry = file.Next();
  Check(entry.has_value(), "the file has no request");
  return OrDie(std::move(entry->request));
}

// A process of its own, so that this one never starts a thread before it forks. Ends with the pipe.
class Child {
 public:
  // `run` gets the ends to read from and to write to.
  explicit Child(const std::function<void(int, int)>& run) {
    int to_child[2];
    int from_child[2];
    Check(pipe(to_child) == 0 && pipe(from_child) == 0, "no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      close(to_child[1]);
      close(from_child[0]);
      run(to_child[0], from_child[1]);
      _exit(0);
    }
    close(to_child[0]);
    close(from_child[1]);
    in_ = to_child[1];
    out_ = from_child[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    close(in_);
    close(out_);
    waitpid(pid_, nullptr, 0);
  }

  void Go() const { Check(write(in_, "g", 1) == 1, "a process is gone"); }
  double Number() const {
    double number = 0;
    Check(read(out_, &number, sizeof number) == sizeof number, "a process is gone");
    return number;
  }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
};

void Send(int out, double number) { (void)!write(out, &number, sizeof number); }
void Await(int in) {
  char byte;
  (void)!read(in, &byte, 1);
}

double PerSecond(int processes, double seconds, const std::function<Call()>& connect) {
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(std::make_unique<Child>([&](int in, int out) {
      const Call call = connect();
      call();
      Send(out, 0);
      Await(in);
      double calls = 0;
      const auto end = Clock::now() + std::chrono::duration<double>(seconds);
      for (; Clock::now() < end; ++calls) call();
      Send(out, calls);
    }));
  }
  for (const auto& child : children) child->Number();
  for (const auto& child : children) child->Go();
  double calls = 0;
  for (const auto& child : children) calls += child->Number();
  return calls / seconds;
}

double CpuMicros() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return 1e6 * static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// A hit's share of the batch: of its time, and of this process's processor time.
std::pair<double, double> BatchMicros(const v1::CompileRequest& request) {
  const std::unique_ptr<Client> client = OrDie(Client::Connect());
  int asked = 0;
  int answered = 0;
  const double cpu = CpuMicros();
  const auto begin = Clock::now();
  const absl::Status status = client->CompileMany(
      [&](v1::CompileRequest& next) {
        next = request;
        return asked++ < kBatch;
      },
      [&](uint64_t, const absl::StatusOr<v1::CompileResponse>& answer) {
        if (answer.ok()) ++answered;
      });
  const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
  Check(status.ok() && answered == kBatch, "the batch was not answered");
  return {elapsed.count() / kBatch, (CpuMicros() - cpu) / kBatch};
}

void Run(const std::string& path, int processes, double seconds) {
  const v1::CompileRequest request = FirstRequest(path);
  const Child first([&](int, int out) {
    Send(out,
         static_cast<double>(OrDie(OrDie(Client::Connect())->Compile(request)).ByteSizeLong()));
  });
  const auto reply_bytes = static_cast<size_t>(first.Number());

  const TempDirectory folder;
  const std::string socket = folder.File("echo.sock");
  const EchoServerProcess server(socket);
  double echoes = 0;
  double hits = 0;
  // In turns: a machine that slows down slows both.
  for (int turn = 0; turn < kTurns; ++turn) {
    echoes += PerSecond(processes, seconds / kTurns, [&]() -> Call {
      return [echo = EchoClient(socket), asked = request.ByteSizeLong(), reply_bytes] {
        echo.Call(asked, reply_bytes);
      };
    });
    hits += PerSecond(processes, seconds / kTurns, [&]() -> Call {
      const std::shared_ptr<Client> client = OrDie(Client::Connect());
      return [client, &request] { OrDie(client->Compile(request)); };
    });
  }
  const Child batch([&](int, int out) {
    const auto [micros, cpu_micros] = BatchMicros(request);
    Send(out, micros);
    Send(out, cpu_micros);
  });
  nlohmann::json report = {{"hits_per_s", hits / kTurns}, {"echoes_per_s", echoes / kTurns}};
  report["batch_us"] = batch.Number();
  report["batch_cpu_us"] = batch.Number();
  std::printf("%s\n", report.dump().c_str());
}

}  // namespace
}  // namespace kiln::benchmarks

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--echo-server") {
    return kiln::benchmarks::RunEchoServer(argv[2]);
  }
  if (argc != 4) {
    std::fprintf(stderr, "usage: load_benchmark FILE.jsonl PROCESSES SECONDS\n");
    return 2;
  }
  kiln::benchmarks::Run(argv[1], std::atoi(argv[2]), std::atof(argv[3]));
  return 0;
}
