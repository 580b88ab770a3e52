// Which kernels run on which devices, by their architectures.
#pragma once

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace kiln::launch {

// "100f" is 100 and 'f'. Number 0: not a compute capability.
struct Capability {
  int number = 0;
  char suffix = ' ';
};

inline Capability ParseCapability(std::string_view name) {
  Capability capability;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, capability.number);
  if (error != std::errc() || end - rest > 1) return {};
  if (rest != end) capability.suffix = *rest;
  return capability;
}

// A kernel for 8.0 also runs on 8.6, a kernel for 9.0a only on 9.0, a kernel for 10.0f on 10.0 and
// 10.3. From 9.0 on, a kernel from Triton only runs on its own architecture, whatever its name.
inline bool RunsOnCuda(std::string_view kernel, bool is_triton, std::string_view device) {
  constexpr int kTritonIsExactFrom = 90;
  const Capability wanted = ParseCapability(kernel);
  const Capability here = ParseCapability(device);
  const bool is_exact = wanted.suffix == 'a' || (is_triton && wanted.number >= kTritonIsExactFrom);
  if (is_exact || wanted.number == 0) return wanted.number == here.number;
  return wanted.number / 10 == here.number / 10 && wanted.number <= here.number;
}

// A device names all of its features, "gfx942:sramecc+:xnack-"; a kernel names those that it needs.
// One for gfx942 runs on every gfx942, one for gfx942:xnack+ only with that feature.
inline bool RunsOnHip(std::string_view kernel, std::string_view device) {
  const auto take_part = [](std::string_view& name) {  // before the next colon
    const size_t colon = name.find(':');
    const std::string_view part = name.substr(0, colon);
    name.remove_prefix(colon == std::string_view::npos ? name.size() : colon + 1);
    return part;
  };
  if (take_part(kernel) != take_part(device)) return false;
  while (!kernel.empty()) {
    const std::string_view wanted = take_part(kernel);
    bool has_it = false;
    for (std::string_view rest = device; !rest.empty() && !has_it;)
      has_it = take_part(rest) == wanted;
    if (!has_it) return false;
  }
  return true;
}

inline std::pair<int, int> ParseSpirvVersion(std::string_view version) {
  std::pair number{0, 0};
  const size_t dot = std::min(version.find('.'), version.size());
  std::from_chars(version.data(), version.data() + dot, number.first);
  if (dot < version.size()) {
    std::from_chars(version.data() + dot + 1, version.data() + version.size(), number.second);
  }
  return number;
}

// SPIR-V of 1.2 runs on every device that takes 1.2 or later. "": the device takes none.
inline bool RunsOnSpirv(std::string_view kernel, std::string_view device) {
  return ParseSpirvVersion(kernel) <= ParseSpirvVersion(device);
}

// Both are of that backend.
inline bool Runs(std::string_view backend, std::string_view kernel, bool is_triton,
                 std::string_view device) {
  if (backend == "cuda") return RunsOnCuda(kernel, is_triton, device);
  return backend == "spirv" ? RunsOnSpirv(kernel, device) : RunsOnHip(kernel, device);
}

}  // namespace kiln::launch
