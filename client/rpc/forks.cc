#include "client/rpc/forks.h"

#include <pthread.h>

#include <atomic>

namespace kiln {
namespace {

constexpr uint64_t kNotStarted = UINT64_MAX;

std::atomic<uint64_t> forks = 0;
std::atomic<uint64_t> started_after = kNotStarted;  // so many forks

}  // namespace

uint64_t Forks() {
  [[maybe_unused]] static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
  return forks;
}

void NoteGrpcStart() {
  uint64_t never = kNotStarted;
  started_after.compare_exchange_strong(never, Forks());
}

bool MayUseGrpc() {
  const uint64_t started = started_after;
  return started == kNotStarted || started == Forks();
}

}  // namespace kiln
