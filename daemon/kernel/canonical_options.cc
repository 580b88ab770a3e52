#include "daemon/kernel/canonical_options.h"

#include <algorithm>
#include <charconv>

#include "daemon/kernel/compile_key.h"
#include "daemon/kernel/launch_options.h"
#include "daemon/kernel/ptx_options.h"
#include "storage/base/limits.h"
#include "storage/base/nearest_word.h"

namespace kiln {
namespace {

bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

// Whether a declaration of `type` takes `value`.
bool HasType(const OptionValue& value, OptionType type) {
  constexpr OptionType kTypes[] = {OptionType::kBool, OptionType::kInteger, OptionType::kNumber,
                                   OptionType::kString, OptionType::kTuple};  // as in OptionValue
  const OptionType own = kTypes[value.value.index()];
  return type == own || type == OptionType::kAny ||
         (type == OptionType::kNumber && own == OptionType::kInteger);
}

// The architecture as a number where it is one: 90 for CUDA, 0 otherwise.
int ComputeCapability(const Target& target) {
  int capability = 0;
  const std::string& text = target.architecture;
  if (target.backend == "cuda") {
    std::from_chars(text.data(), text.data() + text.size(), capability);
  }
  return capability;
}

bool HasClusters(const Target& target) {
  return ComputeCapability(target) >= 90 || target.architecture.rfind("gfx125", 0) == 0;
}

absl::Status UnknownOption(const Toolchain& toolchain, const BackendDescription& backend,
                           const std::string& name) {
  std::vector<std::string_view> known;
  for (const auto& [each, declaration] : backend.options) known.push_back(each);
  return InvalidArgument("unknown option '{}' for the {} backend of {}; it knows {}{}", name,
                         backend.backend, toolchain.Name(), fmt::join(known, ", "),
                         DidYouMean(name, known));
}

absl::StatusOr<Options> Merge(const LaunchParameters& launch, const Options& options) {
  Options merged = LaunchOptions(launch);
  for (const auto& [name, value] : options) {
    if (!merged.emplace(name, value).second) {
      return InvalidArgument("'{}' is given both as launch parameter and as option; give it once",
                             name);
    }
  }
  return merged;
}

// A path of the client's means nothing here, the daemon must not read what the client may not, and
// the key would cover the file's name instead of its bytes.
absl::Status CheckNamesNoFile(std::string_view name, const OptionValue& value) {
  if (name == "ir_override" || name == "extern_libs") {
    return InvalidArgument(
        "option '{}' names files of the client, which the daemon does not read; leave it out, or "
        "compile locally",
        name);
  }
  const auto* text = std::get_if<std::string>(&value.value);
  return name == "ptx_options" && text != nullptr ? CheckPtxOptions(*text) : absl::OkStatus();
}

absl::Status CheckDeclared(const Toolchain& toolchain, const BackendDescription& backend,
                           const std::string& name, const OptionValue& value) {
  const auto declared = backend.options.find(name);
  if (declared == backend.options.end()) return UnknownOption(toolchain, backend, name);
  if (!HasType(value, declared->second.type)) {
    const bool is_tuple = declared->second.type == OptionType::kTuple;
    return InvalidArgument(
        "option '{}' must be of type {}, got {}{}", name, OptionTypeName(declared->second.type),
        ValueTypeName(value),
        is_tuple ? "; on the command line write a JSON array, as '[\"N=64\"]'" : "");
  }
  return CheckNamesNoFile(name, value);
}

absl::Status CheckRange(std::string_view name, std::optional<int64_t> value, int64_t min,
                        int64_t max) {
  if (!value || (*value >= min && *value <= max)) return absl::OkStatus();
  return InvalidArgument("{} is {}; it must be between {} and {}", name, *value, min, max);
}

absl::Status CheckPowerOfTwo(std::string_view name, std::optional<int64_t> value) {
  if (!value || IsPowerOfTwo(*value)) return absl::OkStatus();
  return InvalidArgument("{} is {}; it must be a power of two", name, *value);
}

absl::Status CheckClusters(const LaunchParameters& launch, const Target& target) {
  int64_t ctas = launch.num_ctas.value_or(1);
  if (launch.cluster_dims) {
    int64_t product = 1;
    for (const int64_t dim : *launch.cluster_dims) {
      KILN_RETURN_IF_ERROR(CheckRange("cluster_dims", dim, 1, limits::kNumCtasMax));
      product *= dim;
    }
    KILN_RETURN_IF_ERROR(
        CheckRange("the product of cluster_dims", product, 1, limits::kNumCtasMax));
    ctas = std::max(ctas, product);
  }
  if (ctas > 1 && !HasClusters(target)) {
    return InvalidArgument(
        "{} CTAs per cluster on {}: clusters need cuda:90 or later; set num_ctas to 1", ctas,
        target.ToString());
  }
  return absl::OkStatus();
}

absl::Status CheckLaunch(const LaunchParameters& launch, const Target& target) {
  KILN_RETURN_IF_ERROR(CheckPowerOfTwo("num_warps", launch.num_warps));
  KILN_RETURN_IF_ERROR(CheckRange("num_warps", launch.num_warps, 1, limits::kNumWarpsMax));
  KILN_RETURN_IF_ERROR(CheckRange("num_stages", launch.num_stages, 0, limits::kNumStagesMax));
  KILN_RETURN_IF_ERROR(CheckPowerOfTwo("num_ctas", launch.num_ctas));
  KILN_RETURN_IF_ERROR(CheckRange("num_ctas", launch.num_ctas, 1, limits::kNumCtasMax));
  KILN_RETURN_IF_ERROR(CheckRange("maxnreg", launch.maxnreg, 1, limits::kMaxnregMax));
  return CheckClusters(launch, target);
}

absl::Status CheckWarpSize(const Target& target, const Options& merged) {
  const int own = WarpSize(target);
  if (target.warp_size != 0 && target.warp_size != own) {
    return InvalidArgument("warp size {} does not fit {}, which has {}; leave it out",
                           target.warp_size, target.ToString(), own);
  }
  const auto option = merged.find("warp_size");
  if (option == merged.end() || option->second == OptionValue{int64_t{own}})
    return absl::OkStatus();
  return InvalidArgument("option 'warp_size' does not fit {}, which has {}; leave it out",
                         target.ToString(), own);
}

// By their encoding, since 0.0 == -0.0 and yet they are not the same to a compiler.
bool IsDefault(const OptionDeclaration& declaration, const OptionValue& value) {
  return declaration.default_value &&
         EncodedValue(*declaration.default_value) == EncodedValue(value);
}

}  // namespace

int WarpSize(const Target& target) {
  if (target.backend == "spirv") return 1;
  if (target.backend != "hip") return 32;
  // gfx9 and before have wavefronts of 64; from gfx10 on, Triton compiles for 32. The last two
  // digits are minor and stepping.
  const bool is_gfx10_or_later = target.architecture.size() >= std::string_view("gfx1030").size();
  return is_gfx10_or_later ? 32 : 64;
}

absl::Status CanonicalizeOptions(const Toolchain& toolchain, const BackendDescription& backend,
                                 CompileRequest& request) {
  KILN_ASSIGN_OR_RETURN(const Options merged, Merge(request.launch, request.options));
  LaunchParameters given;
  for (const auto& [name, value] : merged) {
    KILN_RETURN_IF_ERROR(CheckDeclared(toolchain, backend, name, value));
    if (IsLaunchParameter(name)) KILN_RETURN_IF_ERROR(SetLaunchParameter(given, name, value));
  }
  KILN_RETURN_IF_ERROR(CheckLaunch(given, request.target));
  KILN_RETURN_IF_ERROR(CheckWarpSize(request.target, merged));

  request.target.warp_size = WarpSize(request.target);
  request.launch = {};
  request.options.clear();
  for (const auto& [name, value] : merged) {
    if (IsDefault(backend.options.at(name), value)) continue;
    if (IsLaunchParameter(name)) {
      KILN_RETURN_IF_ERROR(SetLaunchParameter(request.launch, name, value));
    } else {
      request.options.emplace(name, value);
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
