#include "tests/testing/fake_catalog.h"

#include <algorithm>

namespace kiln {
namespace {

OptionDeclaration Declared(OptionType type) { return {type, std::nullopt}; }
OptionDeclaration Declared(OptionType type, OptionValue value) { return {type, std::move(value)}; }

BackendDescription MakeCuda() {
  BackendDescription backend;
  backend.backend = "cuda";
  backend.architectures = {"80", "89", "90", "100"};
  backend.stages = {"ttgir", "llir", "ptx", "cubin"};
  backend.options = {
      {"num_warps", Declared(OptionType::kInteger, {int64_t{4}})},
      {"num_ctas", Declared(OptionType::kInteger, {int64_t{1}})},
      {"num_stages", Declared(OptionType::kInteger, {int64_t{3}})},
      {"warp_size", Declared(OptionType::kInteger, {int64_t{32}})},
      {"maxnreg", Declared(OptionType::kInteger)},
      {"cluster_dims",
       Declared(OptionType::kTuple, {OptionTuple{{int64_t{1}}, {int64_t{1}}, {int64_t{1}}}})},
      {"ptx_options", Declared(OptionType::kString)},
      {"ir_override", Declared(OptionType::kString)},
      {"extern_libs", Declared(OptionType::kAny)},
      {"enable_fp_fusion", Declared(OptionType::kBool, {true})},
      {"launch_cooperative_grid", Declared(OptionType::kBool, {false})},
      {"launch_pdl", Declared(OptionType::kBool, {false})},
      {"supported_fp8_dtypes", Declared(OptionType::kTuple)},
      {"default_dot_input_precision", Declared(OptionType::kString, {std::string("tf32")})},
      {"scale", Declared(OptionType::kNumber, {0.0})},
  };
  return backend;
}

BackendDescription MakeHip() {
  BackendDescription backend;
  backend.backend = "hip";
  backend.architectures = {"gfx90a", "gfx942", "gfx1100"};
  backend.stages = {"ttgir", "llir", "amdgcn", "hsaco"};
  backend.options = {
      {"num_warps", Declared(OptionType::kInteger, {int64_t{4}})},
      {"num_ctas", Declared(OptionType::kInteger, {int64_t{1}})},
      {"num_stages", Declared(OptionType::kInteger, {int64_t{2}})},
      {"waves_per_eu", Declared(OptionType::kInteger, {int64_t{0}})},
      {"kpack", Declared(OptionType::kInteger, {int64_t{1}})},
  };
  return backend;
}

}  // namespace

std::shared_ptr<Toolchain> MakeTriton() {
  auto toolchain = std::make_shared<Toolchain>();
  toolchain->name = "triton";
  toolchain->version = "3.6.0";
  toolchain->fingerprint = Digest::Of("triton 3.6.0");
  toolchain->directory = "/toolchains/triton-3.6.0";
  toolchain->kinds = {SourceKind::kTtir, SourceKind::kTtgir};
  toolchain->backends = {MakeCuda(), MakeHip()};
  return toolchain;
}

std::shared_ptr<Toolchain> MakePtxas() {
  BackendDescription cuda;
  cuda.backend = "cuda";
  cuda.architectures = {"80", "90", "90a", "100f"};
  cuda.stages = {"cubin"};
  cuda.options = {{"maxnreg", Declared(OptionType::kInteger)},
                  {"device-debug", Declared(OptionType::kBool, {false})}};
  auto toolchain = std::make_shared<Toolchain>();
  toolchain->name = "ptxas";
  toolchain->version = "13.0.88";
  toolchain->fingerprint = Digest::Of("ptxas 13.0.88");
  toolchain->directory = "/usr/local/cuda/bin/ptxas";
  toolchain->kinds = {SourceKind::kPtx};
  toolchain->backends = {std::move(cuda)};
  return toolchain;
}

std::shared_ptr<Toolchain> MakeNvrtc() {
  BackendDescription cuda;
  cuda.backend = "cuda";
  cuda.architectures = {"80", "90", "90a"};
  cuda.stages = {"ptx", "cubin"};
  cuda.stages_with = {{"dlink-time-opt", {"ltoir"}}};
  cuda.options = {{"std", Declared(OptionType::kString)},
                  {"dlink-time-opt", Declared(OptionType::kBool, {false})}};
  auto toolchain = std::make_shared<Toolchain>();
  toolchain->name = "nvrtc";
  toolchain->version = "13.0.88";
  toolchain->fingerprint = Digest::Of("nvrtc 13.0.88");
  toolchain->kinds = {SourceKind::kCudaCxx};
  toolchain->backends = {std::move(cuda)};
  return toolchain;
}

absl::StatusOr<std::shared_ptr<const Toolchain>> FakeCatalog::Find(std::string_view selector,
                                                                   SourceKind kind,
                                                                   const Target& target) const {
  for (const auto& toolchain : toolchains_) {
    if (!selector.empty() && selector != toolchain->Name()) continue;
    const auto& kinds = toolchain->kinds;
    if (std::count(kinds.begin(), kinds.end(), kind) == 0) continue;
    const BackendDescription* backend = toolchain->FindBackend(target.backend);
    if (backend == nullptr) continue;
    const auto& known = backend->architectures;
    if (std::count(known.begin(), known.end(), target.architecture) != 0) return toolchain;
  }
  return FailedPrecondition("no toolchain here compiles {} for {}", SourceKindName(kind),
                            target.ToString());
}

}  // namespace kiln
