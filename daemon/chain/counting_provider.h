// Counts requests by how they end.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "daemon/chain/forwarding_provider.h"

namespace kiln {

// Since the start. A finished request is counted in `requests` and in exactly one other.
struct CompileCounts {
  uint64_t requests = 0;
  std::array<uint64_t, 3> hits{};  // by tier: memory, disk, remote
  uint64_t joined = 0;
  uint64_t compiled = 0;
  uint64_t failed = 0;     // the source does not compile, fresh or remembered
  uint64_t not_found = 0;  // only-if-cached, and not cached
  uint64_t rejected = 0;   // the queue was full
  uint64_t abandoned = 0;  // the caller left or its deadline passed
  uint64_t errors = 0;     // the infrastructure failed, or nothing was decided of the source
  uint64_t InFlight() const;
};

// The outermost decorator; changes nothing. Thread-safe; does not block.
class CountingProvider final : public ForwardingProvider {
 public:
  explicit CountingProvider(std::unique_ptr<CompilationProvider> next);

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;

  CompileCounts Counts() const;

 private:
  using Counter = std::atomic<uint64_t>;
  Counter& CounterOf(const absl::StatusOr<CompileResult>& result);

  Counter requests_ = 0;
  std::array<Counter, 3> hits_{};
  Counter joined_ = 0;
  Counter compiled_ = 0;
  Counter failed_ = 0;
  Counter not_found_ = 0;
  Counter rejected_ = 0;
  Counter abandoned_ = 0;
  Counter errors_ = 0;
};

}  // namespace kiln
