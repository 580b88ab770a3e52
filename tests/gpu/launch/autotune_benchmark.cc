// gpu_autotune_benchmark SOURCES ROOT STOCK_SECONDS CORES [DRIVER]: has the daemon under ROOT
// compile the 18 configurations of a matmul in SOURCES as one batch, some times over, and finds the
// fastest on this machine's GPU. STOCK_SECONDS is what Triton itself takes to compile them one
// after the other (launch_kernels.py). Prints a list of rows as tests/benchmarks/run --json does;
// the rest goes to stderr.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/launch/kiln_launch.h"
#include "client/rpc/client.h"
#include "client/rpc/tuning_store.h"
#include "tests/gpu/launch/gpu.h"
#include "tests/gpu/launch/tuned_matmul.h"

namespace kiln::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatches = 5;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void Check(kiln_launch_code code) {
  if (code != KILN_LAUNCH_OK) throw std::runtime_error(kiln_launch_error());
}

template <typename T>
T Take(absl::StatusOr<T> value) {
  if (!value.ok()) throw std::runtime_error(value.status().ToString());
  return *std::move(value);
}

v1::CompileRequest RequestFor(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no " + path);
  v1::CompileRequest request;
  request.mutable_source()->set_kind(v1::SOURCE_KIND_TTIR);
  request.mutable_source()->set_text({std::istreambuf_iterator<char>(file), {}});
  request.mutable_target()->set_backend("cuda");
  request.mutable_target()->set_architecture(Architecture());
  return request;
}

// A comment more makes another key for each batch.
v1::CompileRequest RequestFor(const std::string& folder, const TunedMatmul::Tile& tile, int batch) {
  v1::CompileRequest request = RequestFor(folder + "/" + CaseName(tile.name) + ".ttir");
  request.mutable_source()->mutable_text()->append("\n// batch " + std::to_string(batch) + "\n");
  request.mutable_launch()->set_num_warps(tile.warps);
  request.mutable_launch()->set_num_stages(tile.stages);
  request.set_priority(v1::PRIORITY_AUTOTUNE);
  return request;
}

// What was compiled for each tile, in their order; without stages where it did not compile.
std::vector<v1::CompileResponse> CompileAll(Client& client, const std::string& folder, int batch) {
  const auto& tiles = TunedMatmul::Tiles();
  std::vector<v1::CompileResponse> compiled(tiles.size());
  size_t next = 0;
  const absl::Status status = client.CompileMany(
      [&](v1::CompileRequest& request) {
        if (next == tiles.size()) return false;
        request = RequestFor(folder, tiles[next++], batch);
        return true;
      },
      [&](uint64_t index, absl::StatusOr<v1::CompileResponse> answer) {
        if (answer.ok()) {
          compiled[index] = *std::move(answer);
        } else {
          std::fprintf(stderr, "%s: %s\n", tiles[index].name.c_str(),
                       answer.status().ToString().c_str());
        }
      });
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return compiled;
}

// From the files that the daemon publishes. Null where it was not compiled, or is too large.
kiln_launch_kernel* OpenKernel(kiln_launch_runtime* runtime, const Client& client,
                               const v1::CompileResponse& compiled) {
  if (compiled.stages().empty()) return nullptr;
  const HotArtifact found = Take(client.FindHot(compiled.key()));
  kiln_launch_bytes bytes{};
  bytes.size = sizeof bytes;
  bytes.json = found.document().data();
  bytes.json_bytes = found.document().size();
  bytes.binary = found.binary().data();
  bytes.binary_bytes = found.binary().size();
  bytes.digest = reinterpret_cast<const uint8_t*>(compiled.stages().rbegin()->digest().data());
  bytes.key = reinterpret_cast<const uint8_t*>(compiled.key().data());
  kiln_launch_artifact* artifact = nullptr;
  Check(kiln_launch_artifact_open_bytes(&bytes, &artifact));
  kiln_launch_kernel* kernel = nullptr;
  const kiln_launch_code code = kiln_launch_kernel_open(runtime, artifact, 0, &kernel);
  if (code != KILN_LAUNCH_RESOURCE_EXHAUSTED) Check(code);
  kiln_launch_artifact_close(artifact);
  return kernel;
}

// With the times that the daemon has. Prints how long it took, and what was found. How many
// candidates were timed.
size_t Tune(kiln_launch_runtime* runtime, Client& client, const TunedMatmul& matmul) {
  const auto begin = Clock::now();
  TuningStore times(client);
  const kiln_launch_tuning_store store = {sizeof store, 0, TuningStore::Find, TuningStore::Put,
                                          &times};
  kiln_launch_autotune_options options = matmul.Options();
  options.store = &store;
  const auto candidates = matmul.candidates();
  std::vector<kiln_launch_tuned> tuned(candidates.size());
  for (kiln_launch_tuned& one : tuned) one.size = sizeof one;
  uint32_t fastest = 0;
  Check(kiln_launch_autotune(runtime, candidates.data(), static_cast<uint32_t>(candidates.size()),
                             &options, tuned.data(), &fastest));
  const double seconds = SecondsSince(begin);
  size_t timed = 0;
  for (const kiln_launch_tuned& one : tuned) timed += one.code == 0 && one.is_stored == 0;
  std::fprintf(stderr, "  tuned in %.3f s, %zu timed: %s takes %.4f ms\n", seconds, timed,
               TunedMatmul::Tiles()[fastest].name.c_str(), tuned[fastest].median_ms);
  return timed;
}

void Run(const std::string& folder, const std::string& root, double stock_s, int cores) {
  ConnectOptions where;
  where.root = root;
  const std::unique_ptr<Client> client = Take(Client::Connect(where));
  // The daemon's first compile starts its workers, as Triton's own first one loads its compiler.
  Take(client->Compile(RequestFor(folder + "/" + CaseName("device_descriptor_add") + ".ttir")));
  std::vector<v1::CompileResponse> compiled;
  std::vector<double> batches_s;
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto begin = Clock::now();
    compiled = CompileAll(*client, folder, batch);
    batches_s.push_back(SecondsSince(begin));
    std::fprintf(stderr,
                 "autotune: %zu configurations compiled in %.3f s, by Triton alone in %.3f s\n",
                 compiled.size(), batches_s.back(), stock_s);
  }
  std::sort(batches_s.begin(), batches_s.end());
  const double seconds = batches_s[kBatches / 2];

  kiln_launch_open_options open{};
  open.size = sizeof open;
  open.driver_path = places().driver.c_str();
  kiln_launch_runtime* runtime = nullptr;
  Check(kiln_launch_open(&open, &runtime));
  TunedMatmul matmul(4096, 4096, 1024);
  for (size_t i = 0; i < compiled.size(); ++i) {
    matmul.Add(TunedMatmul::Tiles()[i], OpenKernel(runtime, *client, compiled[i]));
  }
  Tune(runtime, *client, matmul);
  // As a second process has it: nothing of this one but what the daemon keeps.
  const std::unique_ptr<Client> second = Take(Client::Connect(where));
  if (Tune(runtime, *second, matmul) != 0) throw std::runtime_error("the second one timed again");

  const double value = stock_s / seconds;
  const double goal = 0.7 * std::min<double>(cores, static_cast<double>(compiled.size()));
  std::printf(
      "[{\"name\": \"autotune\", \"value\": %.4f, \"goal\": %.2f, \"better\": \"higher\", "
      "\"holds\": %s}]\n",
      value, goal, value >= goal ? "true" : "false");
}

}  // namespace
}  // namespace kiln::gpu

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr,
                 "usage: gpu_autotune_benchmark SOURCES ROOT STOCK_SECONDS CORES [DRIVER]\n");
    return 2;
  }
  if (count > 5) kiln::gpu::places().driver = arguments[5];
  try {
    kiln::gpu::Run(arguments[1], arguments[2], std::atof(arguments[3]), std::atoi(arguments[4]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
