#include "daemon/worker/native/large_pages.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "daemon/process/allocator.h"
#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

constexpr size_t kLargePage = 2 * limits::kMiB;

bool HasLargePages() {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  return std::getline(setting, text) && text.find("[never]") == std::string::npos;
}

long Faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Whether `holds` in a fork of this process.
bool HoldsInFork(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A file that is mapped as a library's code is.
class MappedLibrary {
 public:
  MappedLibrary() {
    std::string content(3 * kLargePage, '\0');
    for (size_t i = 0; i < content.size(); i += 997) content[i] = static_cast<char>(i / 997 % 251);
    WriteFileOrDie(path(), content);
    const UniqueFd file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    begin_ = static_cast<const char*>(
        ::mmap(nullptr, content.size(), PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0));
    if (begin_ == MAP_FAILED) std::abort();
    content_ = std::move(content);
  }
  ~MappedLibrary() { ::munmap(const_cast<char*>(begin_), content_.size()); }
  MappedLibrary(const MappedLibrary&) = delete;
  MappedLibrary& operator=(const MappedLibrary&) = delete;

  std::string path() const { return directory_.File("library.so"); }
  bool IsAsItWas() const { return std::string_view(begin_, content_.size()) == content_; }

  // How much of it is still the file's.
  size_t BytesOfFile() const {
    size_t bytes = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      size_t begin = 0;
      size_t end = 0;
      if (line.ends_with(path()) && std::sscanf(line.c_str(), "%zx-%zx", &begin, &end) == 2) {
        bytes += end - begin;
      }
    }
    return bytes;
  }

  size_t size() const { return content_.size(); }

 private:
  const TempDirectory directory_;
  std::string content_;
  const char* begin_ = nullptr;
};

TEST(LargePagesTest, AMovedLibraryIsWhatItWasForForksAsWell) {
  if (!HasLargePages()) GTEST_SKIP() << "this machine has no large pages";
  const MappedLibrary library;
  MoveToLargePages(library.path());
  EXPECT_LE(library.BytesOfFile(), kLargePage);
  EXPECT_TRUE(library.IsAsItWas());
  EXPECT_TRUE(HoldsInFork([&] { return library.IsAsItWas(); }));
}

TEST(LargePagesTest, CodeThatMayNotMoveStaysWhereItIs) {
  constexpr int kMemoryDenyWriteExecute = 65;  // PR_SET_MDWE of Linux 6.3
  constexpr unsigned long kRefuseExecGain = 1;
  EXPECT_TRUE(HoldsInFork([] {
    const MappedLibrary library;
    if (::prctl(kMemoryDenyWriteExecute, kRefuseExecGain, 0, 0, 0) != 0) return true;
    MoveToLargePages(library.path());
    return library.BytesOfFile() == library.size() && library.IsAsItWas();
  }));
}

TEST(LargePagesTest, ALibraryThatIsGoneIsHarmless) { MoveToLargePages("/nowhere/library.so"); }

// The page faults of a fork of a process that has freed as many blocks as the fork allocates.
long FaultsOfAFork(const FreshHeap* heap) {
  constexpr size_t kBlocks = 16 * 1024;
  constexpr size_t kBlockBytes = 1000;
  const auto allocate = [] {
    std::vector<std::unique_ptr<char[]>> blocks;
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(std::make_unique<char[]>(kBlockBytes));  // writes to it
    }
  };
  allocate();
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) std::abort();
  if (::fork() == 0) {
    if (heap != nullptr) heap->Enter();
    const long before = Faults();
    allocate();
    const long faults = Faults() - before;
    ::_exit(::write(pipe[1], &faults, sizeof faults) == sizeof faults ? 0 : 1);
  }
  ::wait(nullptr);
  long faults = -1;
  if (::read(pipe[0], &faults, sizeof faults) != sizeof faults) std::abort();
  return faults;
}

// Not a test of its own: another process's part of the next one.
TEST(LargePagesTest, DISABLED_UnderJemalloc) {
  const FreshHeap heap;
  const long in_old_heap = FaultsOfAFork(nullptr);
  const long in_fresh_heap = FaultsOfAFork(&heap);
  std::printf("%ld and %ld page faults\n", in_old_heap, in_fresh_heap);
  EXPECT_LT(in_fresh_heap, in_old_heap / 4);
}

TEST(LargePagesTest, AForkAllocatesInLargePagesOfItsOwn) {
  if (*KILN_SANITIZE != '\0') GTEST_SKIP() << "sanitizers bring their own malloc";
  const std::string jemalloc =
      FindJemalloc("", [](const auto&, const auto&) { return absl::OkStatus(); });
  if (jemalloc.empty() || !HasLargePages()) GTEST_SKIP() << "no jemalloc, or no large pages";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = fmt::format(
      "env '{}' '{}' --gtest_also_run_disabled_tests --gtest_filter='*DISABLED_UnderJemalloc'",
      fmt::join(AllocatorEnvironment(jemalloc), "' '"), self);
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(LargePagesTest, AnotherMallocStaysAsItIs) {
  const FreshHeap heap;
  heap.Enter();
  EXPECT_NE(std::make_unique<char[]>(limits::kMiB), nullptr);
}

}  // namespace
}  // namespace kiln
