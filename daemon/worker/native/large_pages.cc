#include "daemon/worker/native/large_pages.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr uint64_t kLargePage = 2 * limits::kMiB;
constexpr size_t kFreshBytes = 64 * limits::kMiB;
// Flags of mallocx: no cache of the thread's, an alignment as a power of two, the arena.
constexpr int kNoCache = 1 << 8;
constexpr int kLargePageAligned = 21;
constexpr int kArenaShift = 20;

struct Mapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  int protection = PROT_NONE;
};

// NOLINTNEXTLINE: an address in /proc/self/maps.
void* At(uint64_t address) { return reinterpret_cast<void*>(address); }

bool HasLargePages() {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  return std::getline(setting, text) && text.find("[never]") == std::string::npos;
}

// Code and constants of the file: "7fbf39e9a000-7fbf3a72a000 r-xp 00000000 08:01 42   /x/y.so".
std::vector<Mapping> ReadOnlyMappings(const std::string& file) {
  std::vector<Mapping> mappings;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping mapping;
    std::array<char, 5> rights{};
    int behind_inode = 0;
    std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &mapping.begin,
                &mapping.end, rights.data(), &behind_inode);
    if (behind_inode == 0 || line.substr(static_cast<size_t>(behind_inode)) != file) continue;
    if (std::strcmp(rights.data(), "r-xp") == 0) mapping.protection = PROT_READ | PROT_EXEC;
    if (std::strcmp(rights.data(), "r--p") == 0) mapping.protection = PROT_READ;
    mapping.begin = (mapping.begin + kLargePage - 1) / kLargePage * kLargePage;
    mapping.end = mapping.end / kLargePage * kLargePage;
    if (mapping.protection != PROT_NONE && mapping.begin < mapping.end) mappings.push_back(mapping);
  }
  return mappings;
}

void Move(const Mapping& mapping) {
  const size_t bytes = mapping.end - mapping.begin;
  // With ends that stay mapped, and nothing touches.
  const size_t room_bytes = bytes + kLargePage;
  void* const room = ::mmap(nullptr, room_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return;
  // NOLINTNEXTLINE: the next multiple of a large page.
  const auto address = reinterpret_cast<uint64_t>(room);
  void* const copy = At((address + kLargePage - 1) / kLargePage * kLargePage);
  bool is_moved = ::madvise(copy, bytes, MADV_HUGEPAGE) == 0;
  if (is_moved) {
    std::memcpy(copy, At(mapping.begin), bytes);
    is_moved = ::mprotect(copy, bytes, mapping.protection) == 0 &&
               ::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, At(mapping.begin)) !=
                   MAP_FAILED;
  }
  if (!is_moved) ::munmap(room, room_bytes);
}

// jemalloc's functions, where this process has them.
struct Jemalloc {
  int (*control)(const char*, void*, size_t*, void*, size_t) = nullptr;
  void* (*allocate)(size_t, int) = nullptr;
  void (*release)(void*, int) = nullptr;

  Jemalloc() {
    Load("mallctl", control);
    Load("mallocx", allocate);
    Load("dallocx", release);
  }

  bool IsThere() const { return control != nullptr && allocate != nullptr && release != nullptr; }

 private:
  template <typename Function>
  static void Load(const char* name, Function& function) {
    // NOLINTNEXTLINE: what dlsym returns is this function.
    function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  }
};

}  // namespace

void MoveToLargePages(const std::string& library) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(library, error);
  if (error || !HasLargePages()) return;
  for (const Mapping& mapping : ReadOnlyMappings(file.native())) Move(mapping);
}

FreshHeap::FreshHeap() {
  const Jemalloc jemalloc;
  size_t size = sizeof arena_;
  if (!jemalloc.IsThere() || jemalloc.control("arenas.create", &arena_, &size, nullptr, 0) != 0) {
    return;
  }
  const int flags = static_cast<int>((arena_ + 1) << kArenaShift) | kNoCache | kLargePageAligned;
  // The arena keeps what is given back: one mapping, which nothing has touched.
  if (void* const room = jemalloc.allocate(kFreshBytes, flags)) jemalloc.release(room, flags);
  // What the zygote has freed, in all arenas. Each fork would give it back by itself.
  jemalloc.control("arena.4096.purge", nullptr, nullptr, nullptr, 0);
}

void FreshHeap::Enter() const {
  if (arena_ == 0) return;
  unsigned arena = arena_;
  Jemalloc().control("thread.arena", nullptr, nullptr, &arena, sizeof arena);
}

}  // namespace kiln
