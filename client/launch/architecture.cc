#include "client/launch/architecture.h"

#include <charconv>

namespace kiln::launch {
namespace {

// "100f" is 100 and 'f'. Number 0: not a compute capability.
struct Capability {
  int number = 0;
  char suffix = ' ';
};

Capability ParseCapability(std::string_view name) {
  Capability capability;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, capability.number);
  if (error != std::errc() || end - rest > 1) return {};
  if (rest != end) capability.suffix = *rest;
  return capability;
}

bool RunsOnCuda(const KernelMetadata& kernel, std::string_view device) {
  constexpr int kTritonIsExactFrom = 90;
  const Capability wanted = ParseCapability(kernel.architecture);
  const Capability here = ParseCapability(device);
  const bool is_exact =
      wanted.suffix == 'a' || (kernel.IsTriton() && wanted.number >= kTritonIsExactFrom);
  if (is_exact || wanted.number == 0) return wanted.number == here.number;
  return wanted.number / 10 == here.number / 10 && wanted.number <= here.number;
}

// Takes the part before the next colon off `name`.
std::string_view TakePart(std::string_view& name) {
  const size_t colon = name.find(':');
  const std::string_view part = name.substr(0, colon);
  name.remove_prefix(colon == std::string_view::npos ? name.size() : colon + 1);
  return part;
}

bool HasFeature(std::string_view features, std::string_view wanted) {
  while (!features.empty()) {
    if (TakePart(features) == wanted) return true;
  }
  return false;
}

// A device names all of its features, "gfx942:sramecc+:xnack-"; a kernel names those that it needs.
bool RunsOnHip(std::string_view kernel, std::string_view device) {
  if (TakePart(kernel) != TakePart(device)) return false;
  while (!kernel.empty()) {
    if (!HasFeature(device, TakePart(kernel))) return false;
  }
  return true;
}

}  // namespace

Status CheckArchitecture(const KernelMetadata& kernel, std::string_view driver_backend,
                         const DeviceFacts& device) {
  const bool runs =
      kernel.backend == driver_backend &&
      (kernel.backend == "cuda" ? RunsOnCuda(kernel, device.architecture)
                                : RunsOnHip(kernel.architecture, device.architecture));
  if (runs) return Status();
  return FailedPrecondition(
      "compiled for {}:{}, but device {} ({}) is {}:{}: have it compiled for that target",
      kernel.backend, kernel.architecture, device.ordinal, device.name, driver_backend,
      device.architecture);
}

}  // namespace kiln::launch
