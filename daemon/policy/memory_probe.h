// How much memory is left for compilers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace kiln {

// Thread-safe; does not block.
class MemoryProbe {
 public:
  virtual ~MemoryProbe() = default;
  // Bytes that could be used now without swapping; nothing where that cannot be told.
  virtual std::optional<uint64_t> AvailableBytes() const = 0;
};

// The smaller of MemAvailable in /proc/meminfo and what the daemon's own control group (version 2)
// leaves: in a container the machine's memory says little.
class SystemMemoryProbe final : public MemoryProbe {
 public:
  // `root` is "/" but in tests.
  explicit SystemMemoryProbe(std::filesystem::path root = "/");

  std::optional<uint64_t> AvailableBytes() const override;

 private:
  std::optional<uint64_t> MachineBytes() const;
  std::optional<uint64_t> ControlGroupBytes() const;

  const std::filesystem::path meminfo_;
  const std::filesystem::path control_group_;
};

}  // namespace kiln
