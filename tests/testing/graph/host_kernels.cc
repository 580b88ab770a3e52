#include "tests/testing/graph/host_kernels.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <regex>

#include "tests/testing/graph/host_threads.h"

namespace kiln::graph {
namespace {

// Fewer than most stages have positions for, and no power of two.
constexpr unsigned kTogetherBlocks = 3;

}  // namespace

std::string WithOwnFunctions(const EmittedKernel& kernel, size_t number) {
  // Functions of the shim keep their names.
  static const std::regex own("kiln_(?!f32_of_f16_bits|f16_bits_of_f32|host_load|host_grid)");
  return std::regex_replace(kernel.text, own, fmt::format("k{}_", number));
}

HostKernels::~HostKernels() {
  if (library_ != nullptr) ::dlclose(library_);
}

absl::Status HostKernels::Build(const std::vector<EmittedKernel>& kernels) {
  const std::string source = directory_.path() + "/kernels.cc";
  const std::string library = directory_.path() + "/kernels.so";
  std::ofstream file(source);
  file << "#include \"" KILN_CUDA_ON_HOST "\"\n";
  for (size_t i = 0; i < kernels.size(); ++i) file << WithOwnFunctions(kernels[i], i) << "\n";
  for (const EmittedKernel& kernel : kernels) {
    file << fmt::format(
        "extern \"C\" void call_{0}(void** arguments) {{ Call({0}, arguments); }}\n", kernel.entry);
  }
  file.close();
  const std::string command = fmt::format(
      "g++ -std=c++20 -O0 -w -fno-strict-aliasing -ffp-contract=off -shared -fPIC -o {} {}",
      library, source);
  if (std::system(command.c_str()) != 0) return absl::InternalError("g++ refuses the kernels");
  library_ = ::dlopen(library.c_str(), RTLD_NOW);
  if (library_ == nullptr) return absl::InternalError(::dlerror());
  *static_cast<HostGrid**>(::dlsym(library_, "kiln_host_grid")) = &TheHostGrid();
  return absl::OkStatus();
}

void HostKernels::Run(const EmittedKernel& kernel, const std::vector<int64_t>& symbols,
                      std::vector<TestBuffer>& buffers, HostStages stages) const {
  std::vector<void*> pointers;
  std::vector<int64_t> sizes = symbols;
  for (TestBuffer& buffer : buffers) {
    // Atomic stores of narrow types read the whole word around an element.
    buffer.bytes().reserve(buffer.bytes().size() + 8);
    pointers.push_back(buffer.bytes().data());
  }
  std::vector<void*> arguments;
  for (void*& pointer : pointers) arguments.push_back(&pointer);
  for (int64_t& size : sizes) arguments.push_back(&size);
  // Whatever the memory of the barrier holds.
  uint64_t barrier[kBarrierBytes / sizeof(uint64_t)] = {0x0123456789abcdef, ~uint64_t{0}};
  const void* barrier_address = barrier;
  uint32_t ticket = 7;
  auto stage = static_cast<uint32_t>(kernel.stages.size());
  if (stage > 0) {
    arguments.insert(arguments.end(), {static_cast<void*>(&barrier_address), &ticket, &stage});
  }
  const auto call =
      reinterpret_cast<void (*)(void**)>(::dlsym(library_, ("call_" + kernel.entry).c_str()));
  const auto launch = [&](unsigned blocks) {
    RunGrid(call, arguments.data(), blocks, static_cast<unsigned>(kernel.threads));
  };
  const auto blocks_of = [&](const GridFactor& factor) {
    const int64_t total = factor.extent.Evaluate(symbols).value_or(0);
    return static_cast<unsigned>((total + factor.tile - 1) / factor.tile);
  };
  if (kernel.stages.empty()) return launch(blocks_of(kernel.grid[0]));
  if (stages == HostStages::kTogether) return launch(kTogetherBlocks);
  for (stage = 0; stage < kernel.stages.size(); ++stage) launch(blocks_of(kernel.stages[stage]));
}

}  // namespace kiln::graph
