#include "daemon/policy/memory_probe.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace kiln {
namespace {

// A number alone in a file; nothing for "max" or where there is no such file.
std::optional<uint64_t> ReadNumber(const std::filesystem::path& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// The number of "name 123" in a file of such lines.
std::optional<uint64_t> ReadField(const std::filesystem::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string field;
  uint64_t number = 0;
  std::string rest;
  while (file >> field >> number) {
    if (field == name) return number;
    std::getline(file, rest);
  }
  return std::nullopt;
}

std::string OwnControlGroup(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::/", 0) == 0) return line.substr(4);
  }
  return "";
}

}  // namespace

SystemMemoryProbe::SystemMemoryProbe(std::filesystem::path root)
    : meminfo_(root / "proc/meminfo"),
      control_group_(root / "sys/fs/cgroup" / OwnControlGroup(root)) {}

std::optional<uint64_t> SystemMemoryProbe::AvailableBytes() const {
  const std::optional<uint64_t> machine = MachineBytes();
  const std::optional<uint64_t> group = ControlGroupBytes();
  if (machine && group) return std::min(*machine, *group);
  return machine ? machine : group;
}

std::optional<uint64_t> SystemMemoryProbe::MachineBytes() const {
  const auto kilobytes = ReadField(meminfo_, "MemAvailable:");
  return kilobytes ? std::optional(*kilobytes * 1024) : std::nullopt;
}

std::optional<uint64_t> SystemMemoryProbe::ControlGroupBytes() const {
  const auto limit = ReadNumber(control_group_ / "memory.max");
  const auto used = ReadNumber(control_group_ / "memory.current");
  if (!limit || !used) return std::nullopt;
  // The group's page cache counts as used and goes when it is needed.
  const uint64_t cache = ReadField(control_group_ / "memory.stat", "inactive_file").value_or(0);
  const uint64_t needed = *used - std::min(*used, cache);
  return *limit - std::min(*limit, needed);
}

}  // namespace kiln
