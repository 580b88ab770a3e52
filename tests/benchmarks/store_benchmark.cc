// What hits and puts of a store cost, by the number of its entries and by how full it is.
//
//   store_benchmark --fill FILE.jsonl STORE COUNT
//       makes a store of COUNT variants of the file's kernels. Needs a daemon (KILN_ROOT) to
//       compile the kernels. Ends like a process that was killed.
//   store_benchmark --hits FILE.jsonl COUNT
//       asks the daemon (KILN_ROOT) that has such a store for its entries: {"first": {"p50": …,
//       "p99": …}, "uniform": …, "echo": …, "hits": …}: microseconds for entries that are not in
//       memory, for any entries, and for a bare gRPC echo of the same sizes; how many hits there
//       were
//   store_benchmark --full FOLDER
//       {"half": {"hit_us": …, "put_us": …, "cpu_us": …, "entries": …}, "full": {…}}: the 99th
//       percentile in a store at half its limit, and at its limit, where puts evict; the processor
//       time of a hit or a put with what it causes, and how many entries there are
//   store_benchmark --echo-server SOCKET
//       the other end of the echo

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cli/requests/request_file.h"
#include "client/rpc/client.h"
#include "client/rpc/published_toolchains.h"
#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/request_document.h"
#include "daemon/kernel/request_resolver.h"
#include "daemon/messages/translate.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/quota_store.h"
#include "storage/rocks/rocks_open.h"
#include "tests/benchmarks/echo.h"
#include "tests/benchmarks/samples.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/temp_directory.h"

namespace kiln::benchmarks {
namespace {

constexpr size_t kTouched = 2000;
constexpr int kUniform = 4000;

constexpr size_t kPuts = 1000;
constexpr auto kPutInterval = std::chrono::milliseconds(2);
constexpr size_t kEntryBytes = 30 * limits::kKiB;
constexpr uint64_t kFullBytes = 64 * limits::kMiB;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "store_benchmark: %s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

double MicrosOf(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// What this process has taken.
double CpuMicros() {
  return 1e6 * static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

v1::CompileRequest FirstRequest(const std::string& path) {
  cli::RequestFile file = OrDie(cli::RequestFile::Open(path));
  return OrDie(std::move(file.Next()->request));
}

v1::CompileRequest Variant(v1::CompileRequest request, size_t number) {
  request.mutable_source()->mutable_text()->append(fmt::format("\n// entry {}\n", number));
  return request;
}

std::shared_ptr<const PublishedToolchains> Toolchains() {
  const std::string path = fmt::format("{}/run/hot/toolchains", std::getenv("KILN_ROOT"));
  return OrDie(PublishedToolchains::Parse(OrDie(OsFilesystem().Read(path, limits::kMiB))));
}

// What the daemon has of a request, and makes of it.
struct Model {
  v1::CompileRequest request;
  HotArtifact hot;
  v1::CompileResponse answer;  // with all stages
  std::string description;
};

Model ModelOf(Client& client, const v1::CompileRequest& request) {
  const std::string key = OrDie(client.Compile(request)).key();
  HotArtifact hot = OrDie(client.FindHot(key));
  v1::CompileRequest for_all = request;
  const std::vector<v1::LookupResponse::Entry> held = OrDie(client.Lookup({key}));
  for (const v1::StageBlob& stage : held.front().stages()) {
    if (stage.stage() != kRequestStage) for_all.add_stages(stage.stage());
  }
  v1::CompileResponse answer = OrDie(client.Compile(for_all));
  v1::CompileResponse described;
  DescribeTo(OrDie(ReadDocument(hot.document())), described);
  answer.mutable_metadata()->set_name(described.metadata().name());
  std::string description = kDescriptionVersion + described.SerializeAsString();
  return {request, std::move(hot), std::move(answer), std::move(description)};
}

// Entries of each request in turns. Those of one request differ in it and in their binary, and
// share the stages between.
void Fill(const std::string& path, const std::string& store_path, size_t count) {
  // It must not fork later, with gRPC's threads.
  const OpenedRocksStore opened =
      OrDie(OpenRocksStore({.path = store_path}, OsFilesystem(), SystemClock()));
  const std::unique_ptr<Client> client = OrDie(Client::Connect());
  std::vector<Model> models;
  cli::RequestFile file = OrDie(cli::RequestFile::Open(path));
  while (auto named = file.Next()) {
    models.push_back(ModelOf(*client, OrDie(std::move(named->request))));
  }

  const auto toolchains = Toolchains();
  const RequestResolver resolver(*toolchains);
  for (size_t i = 0; i < count; ++i) {
    const Model& model = models[i % models.size()];
    const CompileJobPtr job = OrDie(resolver.Resolve(OrDie(FromProto(Variant(model.request, i)))));
    ArtifactRecord record;
    record.key = job->key;
    record.name = model.answer.metadata().name();
    record.options = ListOptions(job->request);
    record.document = std::string(model.hot.document());
    record.description = model.description;
    record.compile_micros = 20'000;
    record.created_unix_ms = SystemClock().UnixMillis();
    std::vector<Blob> blobs = {Blob::FromBytes(WriteRequest(*job))};
    record.stages = {{std::string(kRequestStage), blobs[0].digest(), blobs[0].size_bytes()}};
    for (const v1::StageBlob& stage : model.answer.stages()) {
      const bool is_binary = stage.stage() == model.hot.stage();
      blobs.push_back(Blob::FromBytes(stage.content() + (is_binary ? fmt::format("{}", i) : "")));
      record.stages.push_back({stage.stage(), blobs.back().digest(), blobs.back().size_bytes()});
    }
    Check(opened.store->Put({}, record, blobs));
  }
  ::_exit(0);
}

void Hits(const std::string& path, size_t count) {
  const TempDirectory folder;
  const std::string socket = folder.File("echo.sock");
  const EchoServerProcess server(socket);
  const EchoClient echo(socket);
  ConnectOptions by_rpc;
  by_rpc.reads_hot_directory = false;
  const std::unique_ptr<Client> client = OrDie(Client::Connect(by_rpc));

  const v1::CompileRequest request = FirstRequest(path);
  std::vector<double> echoes;
  const auto hit = [&](size_t number, std::vector<double>& micros) {
    const v1::CompileRequest asked = Variant(request, number);
    v1::CompileResponse answer;
    micros.push_back(MicrosOf([&] { answer = OrDie(client->Compile(asked)); }));
    if (answer.outcome() != v1::OUTCOME_HIT) Check(Internal("entry {} is not a hit", number));
    const size_t asked_bytes = asked.ByteSizeLong();
    const size_t answer_bytes = answer.ByteSizeLong();
    echoes.push_back(MicrosOf([&] { echo.Call(asked_bytes, answer_bytes); }));
  };

  std::mt19937_64 random(count);
  std::vector<size_t> entries(count);
  for (size_t i = 0; i < count; ++i) entries[i] = i;
  std::shuffle(entries.begin(), entries.end(), random);
  std::vector<double> first;
  for (size_t i = 0; i < std::min(count, kTouched); ++i) hit(entries[i], first);
  std::vector<double> uniform;
  for (int i = 0; i < kUniform; ++i) hit(random() % count, uniform);
  const auto percentiles = [](std::vector<double>& micros) {
    return nlohmann::json{{"p50", Percentile(micros, 50)}, {"p99", Percentile(micros, 99)}};
  };
  const nlohmann::json report = {{"first", percentiles(first)},
                                 {"uniform", percentiles(uniform)},
                                 {"echo", percentiles(echoes)},
                                 {"hits", first.size() + uniform.size()}};
  std::printf("%s\n", report.dump().c_str());
}

MadeArtifact Entry(size_t number) {
  MadeArtifact made = MakeArtifact(fmt::format("entry {}", number), kEntryBytes);
  made.record.document.append(1500, ' ');
  return made;
}

// Puts entries at a steady rate into a store that has `kFullBytes` of them, while another thread
// reads the latest.
nlohmann::json Measure(const std::string& path, uint64_t bytes_max) {
  OpenedRocksStore opened = OrDie(
      OpenRocksStore({.path = path, .expected_bytes = bytes_max}, OsFilesystem(), SystemClock()));
  QuotaStore store(std::move(opened.store), {.bytes_max = bytes_max, .disk_path = path},
                   OsFilesystem(), SystemClock());
  std::atomic<size_t> count = 0;
  for (; store.Stats().stored_bytes < kFullBytes * 97 / 100; ++count) {
    const MadeArtifact made = Entry(count);
    Check(store.Put({}, made.record, made.blobs));
  }
  std::atomic<bool> is_over = false;
  std::vector<double> hits;
  std::thread reader([&] {
    std::mt19937_64 random(1);
    while (!is_over) {
      const Digest key = MadeKey(fmt::format("entry {}", count - 1 - random() % kPuts));
      bool is_hit = false;
      const double micros = MicrosOf([&] {
        const auto found = store.Get({}, key);
        is_hit = found.ok() && store.GetBlob({}, found->record->stages.back().digest).ok();
      });
      if (is_hit) hits.push_back(micros);
      std::this_thread::sleep_for(kPutInterval / 4);
    }
  });
  std::vector<double> puts;
  const double cpu = CpuMicros();
  for (; puts.size() < kPuts; ++count) {
    const MadeArtifact made = Entry(count);
    puts.push_back(MicrosOf([&] { Check(store.Put({}, made.record, made.blobs)); }));
    std::this_thread::sleep_for(kPutInterval);
  }
  is_over = true;
  reader.join();
  const double cpu_us = (CpuMicros() - cpu) / static_cast<double>(hits.size() + puts.size());
  return {{"hit_us", Percentile(hits, 99)},
          {"put_us", Percentile(puts, 99)},
          {"cpu_us", cpu_us},
          {"entries", store.Stats().artifacts}};
}

void Full(const std::string& folder) {
  const nlohmann::json half = Measure(folder + "/half", 2 * kFullBytes);
  const nlohmann::json full = Measure(folder + "/full", kFullBytes);
  std::printf("%s\n", nlohmann::json{{"half", half}, {"full", full}}.dump().c_str());
}

}  // namespace
}  // namespace kiln::benchmarks

int main(int argc, char** argv) {
  using namespace kiln::benchmarks;
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "--echo-server") return RunEchoServer(argv[2]);
  if (mode == "--fill" && argc == 5) {
    Fill(argv[2], argv[3], std::stoul(argv[4]));
  } else if (mode == "--hits" && argc == 4) {
    Hits(argv[2], std::stoul(argv[3]));
  } else if (mode == "--full") {
    Full(argv[2]);
  } else {
    std::fprintf(stderr, "usage: store_benchmark --fill|--hits|--full|--echo-server …\n");
    return 2;
  }
  return 0;
}
