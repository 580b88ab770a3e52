// Counts requests by how they end.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "daemon/chain/forwarding_provider.h"
#include "daemon/policy/recent_asks.h"
#include "storage/base/metrics.h"

namespace kiln {

// The outermost decorator; changes nothing. A finished request is counted in `requests` and in
// exactly one other counter, unless IsQuestion. `asks` is told of each. Thread-safe; does not
// block.
class CountingProvider final : public ForwardingProvider {
 public:
  CountingProvider(std::unique_ptr<CompilationProvider> next, RecentAsks& asks);

  FoundResult Find(const CallContext& context, const CompileJobPtr& job) override;
  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;

 private:
  void NoteRequest(const CallContext& context);
  Counter& CounterOf(const absl::StatusOr<CompileResult>& result);

  RecentAsks& asks_;
  Counter requests_{"requests", "Requests to compile."};
  // By tier.
  std::array<Counter, 2> hits_{{{"hits_memory", "Requests answered from memory."},
                                {"hits_disk", "Requests answered from the disk."}}};
  Counter joined_{"joined", "Requests answered with the result of another request's compile."};
  Counter compiled_{"compiled", "Requests compiled afresh."};
  Counter failed_{"failed", "Requests whose source does not compile, found out now or remembered."};
  Counter not_found_{"not_found", "Requests for only-if-cached that were not cached."};
  Counter rejected_{"rejected", "Requests refused: not valid, queue full, or daemon draining."};
  Counter abandoned_{"abandoned", "Requests whose caller left or whose deadline passed."};
  Counter errors_{"errors", "Requests with any other end, as a compiler that crashed twice."};
  std::atomic<uint64_t> in_flight_ = 0;
  Gauge in_flight_gauge_{"in_flight", "Requests not answered yet.",
                         [this] { return in_flight_.load(); }};
};

}  // namespace kiln
