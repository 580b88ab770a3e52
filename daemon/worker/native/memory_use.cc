#include "daemon/worker/native/memory_use.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <string>
#include <string_view>

#include "storage/base/limits.h"

namespace kiln {
namespace {

UniqueFd OpenOfThisProcess(const std::string& name, int mode) {
  return UniqueFd(::open(("/proc/self/" + name).c_str(), mode | O_CLOEXEC));
}

// "" where it cannot be read. What is read here fits a page.
std::string ReadFromStart(const UniqueFd& file) {
  std::array<char, 4096> text{};
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  return got <= 0 ? "" : std::string(text.data(), static_cast<size_t>(got));
}

uint64_t ReadResidentBytes(const UniqueFd& file) {
  uint64_t size = 0;
  uint64_t resident = 0;
  std::istringstream(ReadFromStart(file)) >> size >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// "VmHWM:	   12345 kB"
uint64_t PeakIn(std::string_view status) {
  constexpr std::string_view kPeak = "\nVmHWM:";
  const size_t at = status.find(kPeak);
  if (at == std::string_view::npos) return 0;
  status.remove_prefix(at + kPeak.size());
  status.remove_prefix(std::min(status.find_first_of("0123456789"), status.size()));
  uint64_t kilobytes = 0;
  std::from_chars(status.data(), status.data() + status.size(), kilobytes);
  return kilobytes * limits::kKiB;
}

}  // namespace

MemoryUse::MemoryUse()
    : resident_(OpenOfThisProcess("statm", O_RDONLY)),
      status_(OpenOfThisProcess("status", O_RDONLY)),
      reset_(OpenOfThisProcess("clear_refs", O_WRONLY)),
      baseline_bytes_(ReadResidentBytes(resident_)) {}

uint64_t MemoryUse::ResidentBytes() const { return ReadResidentBytes(resident_); }

void MemoryUse::ResetPeak() {
  // With a peak of earlier compiles, each would seem as large as the largest of them.
  if (reset_ && ::pwrite(reset_.get(), "5", 1, 0) != 1) reset_.Reset();
}

uint64_t MemoryUse::PeakBytes() const {
  if (!reset_) return 0;
  const uint64_t peak = PeakIn(ReadFromStart(status_));
  return peak - std::min(peak, baseline_bytes_);
}

}  // namespace kiln
