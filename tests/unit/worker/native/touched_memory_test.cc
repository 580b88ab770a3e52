#include "daemon/worker/native/touched_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <optional>

namespace kiln {
namespace {

constexpr size_t kPages = 512;

// Written to, every page of it; in small pages, as nearly all of a heap is.
class WrittenPages {
 public:
  WrittenPages()
      : page_bytes_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))),
        begin_(static_cast<char*>(::mmap(nullptr, kPages * page_bytes_, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (begin_ == MAP_FAILED) std::abort();
    ::madvise(begin_, kPages * page_bytes_, MADV_NOHUGEPAGE);
    Write();
  }
  ~WrittenPages() { ::munmap(begin_, kPages * page_bytes_); }
  WrittenPages(const WrittenPages&) = delete;
  WrittenPages& operator=(const WrittenPages&) = delete;

  bool CanBePopulated() const {
    constexpr int kPopulateWrite = 23;
    return ::madvise(begin_, page_bytes_, kPopulateWrite) == 0;
  }

  // How many page faults it takes.
  long Write() {
    const long before = Faults();
    for (size_t i = 0; i < kPages; ++i) begin_[i * page_bytes_] = 1;
    return Faults() - before;
  }

 private:
  static long Faults() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  }

  const size_t page_bytes_;
  char* const begin_;
};

// Whether `holds` in a fork of this process.
bool HoldsInFork(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(TouchedMemoryTest, AForkThatTouchedItAgainHasNoMorePageFaults) {
  WrittenPages pages;
  if (!pages.CanBePopulated()) GTEST_SKIP() << "the kernel is older than Linux 5.14";
  const TouchedMemory touched = TouchedMemory::OfThisProcess();
  EXPECT_TRUE(HoldsInFork([&] {
    touched.TouchAgain([] { return false; });
    return pages.Write() < static_cast<long>(kPages / 10);
  }));
}

TEST(TouchedMemoryTest, StopsWhenAJobArrives) {
  WrittenPages pages;
  const TouchedMemory touched = TouchedMemory::OfThisProcess();
  EXPECT_TRUE(HoldsInFork([&] {
    touched.TouchAgain([] { return true; });
    return pages.Write() >= static_cast<long>(kPages);
  }));
}

TEST(TouchedMemoryTest, UnmappedMemoryIsHarmless) {
  std::optional<WrittenPages> pages(std::in_place);
  const TouchedMemory touched = TouchedMemory::OfThisProcess();
  pages.reset();
  EXPECT_TRUE(HoldsInFork([&] {
    touched.TouchAgain([] { return false; });
    return true;
  }));
}

}  // namespace
}  // namespace kiln
