#include "client/cli/requests/retargeted.h"

#include <algorithm>

#include "client/cli/output/enum_names.h"

namespace kiln::cli {

RetargetedIr IrOf(const NamedRequest& named) {
  if (!named.request.ok() || !named.request->has_target()) return RetargetedIr::kSame;
  const std::vector<std::string>& same = named.recorded.same_ir_targets;
  if (!same.empty()) {
    const bool is_same = std::ranges::count(same, TargetName(named.request->target())) > 0;
    return is_same ? RetargetedIr::kSame : RetargetedIr::kDiffers;
  }
  const bool is_ir = named.request->source().kind() == v1::SOURCE_KIND_TTIR;
  return named.recorded.is_retargeted && is_ir ? RetargetedIr::kMayDiffer : RetargetedIr::kSame;
}

void RetargetedKernels::Add(RetargetedIr ir, const std::string& name) {
  if (ir == RetargetedIr::kDiffers) differing_.Add(name);
  if (ir == RetargetedIr::kMayDiffer) unsure_.Add(name);
}

void RetargetedKernels::Tell(Console& console) const {
  differing_.Tell(console,
                  "made for another GPU: on this target the job's Triton makes other IR, so it may "
                  "compile again");
  unsure_.Tell(console,
               "recorded for another GPU: whether the job's Triton makes the same IR on this "
               "target is not known, so it may compile again");
}

}  // namespace kiln::cli
