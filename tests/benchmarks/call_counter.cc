// A library for LD_PRELOAD: counts allocations and locked mutexes of a process in the file that
// KILN_CALL_COUNTS names, two 64-bit numbers. benchmarks.py reads them while the process runs.

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

struct Counts {
  std::atomic<uint64_t> allocations;
  std::atomic<uint64_t> locks;
};

Counts before_start;
Counts* counts = &before_start;

template <typename Function>
Function* Next(Function* /*type*/, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void CountAllocation() { counts->allocations.fetch_add(1, std::memory_order_relaxed); }

__attribute__((constructor)) void Start() {
  const char* path = std::getenv("KILN_CALL_COUNTS");
  if (path == nullptr) return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  void* mapped = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) std::abort();
  close(file);
  counts = static_cast<Counts*>(mapped);
  // The processes that this one starts are not counted.
  unsetenv("LD_PRELOAD");
  unsetenv("KILN_CALL_COUNTS");
}

}  // namespace

// jemalloc has its own, which does not call malloc.
void* operator new(size_t size) { return malloc(size); }
void* operator new[](size_t size) { return malloc(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return malloc(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return malloc(size); }
void* operator new(size_t size, std::align_val_t alignment) {
  return aligned_alloc(static_cast<size_t>(alignment), size);
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }

extern "C" {

void* malloc(size_t size) noexcept {
  static auto* const next = Next(&malloc, "malloc");
  CountAllocation();
  return next(size);
}

void* realloc(void* old, size_t size) noexcept {
  static auto* const next = Next(&realloc, "realloc");
  CountAllocation();
  return next(old, size);
}

// dlsym may allocate with calloc: glibc's does without it where this returns null.
void* calloc(size_t count, size_t size) noexcept {
  static std::atomic<bool> is_looking = false;
  static std::atomic<void* (*)(size_t, size_t)> next = nullptr;
  if (next == nullptr) {
    if (is_looking.exchange(true)) return nullptr;
    next = Next(&calloc, "calloc");
  }
  CountAllocation();
  return next.load()(count, size);
}

void* aligned_alloc(size_t alignment, size_t size) noexcept {
  static auto* const next = Next(&aligned_alloc, "aligned_alloc");
  CountAllocation();
  return next(alignment, size);
}

int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  static auto* const next = Next(&posix_memalign, "posix_memalign");
  CountAllocation();
  return next(out, alignment, size);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const next = Next(&pthread_mutex_lock, "pthread_mutex_lock");
  counts->locks.fetch_add(1, std::memory_order_relaxed);
  return next(mutex);
}

}  // extern "C"
