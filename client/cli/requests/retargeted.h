// Requests of manifests that are for another target than the recorded one.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/output/told_kernels.h"
#include "client/cli/requests/named_request.h"

namespace kiln::cli {

// Whether the job's Triton makes the recorded IR for the request's target, too. kMayDiffer: the
// recording does not say.
enum class RetargetedIr { kSame, kDiffers, kMayDiffer };

// kSame for a request that cannot be read.
[[nodiscard]] RetargetedIr IrOf(const NamedRequest& named);

// Names kernels whose IR may be another. Not thread-safe.
class RetargetedKernels {
 public:
  void Add(RetargetedIr ir, const std::string& name);
  // Names them as what the job may have to compile again.
  void Tell(Console& console) const;

  uint64_t differing() const { return differing_.count(); }
  uint64_t unsure() const { return unsure_.count(); }

 private:
  ToldKernels differing_;
  ToldKernels unsure_;
};

}  // namespace kiln::cli
