#include "daemon/worker/native/touched_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// Constants of Linux 5.14, which some C libraries' headers lack.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

constexpr uint64_t kStepBytes = 256 * limits::kKiB;
// What is larger is address space that somebody reserved.
constexpr uint64_t kMappingBytesMax = limits::kGiB;
// The bit of a /proc/self/pagemap entry for "in memory". Its other bits take privileges.
constexpr uint64_t kIsPresent = uint64_t{1} << 63;

uint64_t PageBytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

// "7fbf39e9a000-7fbf3a72a000 r--p 00000000 08:01 42   /usr/lib/x.so"; none for what is not worth it
// or not to be touched: the stack, guard pages, what the kernel itself maps.
std::optional<TouchedMemory::Range> TouchedMemory::RangeOf(const std::string& line) {
  Range range;
  std::array<char, 5> rights{};
  int behind_inode = 0;
  std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &range.begin, &range.end,
              rights.data(), &behind_inode);
  if (behind_inode == 0 || rights[0] != 'r' || rights[3] != 'p') return std::nullopt;
  const std::string name = line.substr(static_cast<size_t>(behind_inode));
  range.is_of_file = name.starts_with('/');
  const bool is_heap = (name.empty() || name == "[heap]") && rights[1] == 'w';
  if (!range.is_of_file && !is_heap) return std::nullopt;
  if (range.end - range.begin > kMappingBytesMax) return std::nullopt;
  return range;
}

void TouchedMemory::AddTouched(const Range& mapping, int pagemap) {
  const uint64_t page = PageBytes();
  std::vector<uint64_t> entries((mapping.end - mapping.begin) / page);
  const ssize_t got = ::pread(pagemap, entries.data(), entries.size() * sizeof(uint64_t),
                              static_cast<off_t>(mapping.begin / page * sizeof(uint64_t)));
  entries.resize(got < 0 ? 0 : static_cast<size_t>(got) / sizeof(uint64_t));
  Range step{mapping.begin, mapping.begin, mapping.is_of_file};
  const auto finish_step = [&](uint64_t next_begin) {
    if (step.end > step.begin) ranges_.push_back(step);
    step.begin = step.end = next_begin;
  };
  uint64_t at = mapping.begin;
  for (const uint64_t entry : entries) {
    if ((entry & kIsPresent) == 0) {
      finish_step(at + page);
    } else {
      step.end = at + page;
      if (step.end - step.begin >= kStepBytes) finish_step(step.end);
    }
    at += page;
  }
  finish_step(at);
}

TouchedMemory TouchedMemory::OfThisProcess() {
  TouchedMemory touched;
  const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; pagemap && std::getline(maps, line);) {
    if (const auto mapping = RangeOf(line)) touched.AddTouched(*mapping, pagemap.get());
  }
  return touched;
}

void TouchedMemory::TouchAgain(const std::function<bool()>& is_enough) const {
  for (const Range& range : ranges_) {
    if (is_enough()) return;
    // NOLINTNEXTLINE: the kernel's own number.
    auto* const begin = reinterpret_cast<void*>(range.begin);
    (void)::madvise(begin, range.end - range.begin,
                    range.is_of_file ? kPopulateRead : kPopulateWrite);
  }
}

}  // namespace kiln
