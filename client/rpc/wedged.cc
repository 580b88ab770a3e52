#include "client/rpc/wedged.h"

#include <absl/strings/cord.h>

namespace kiln {
namespace {

constexpr char kWedgedUrl[] = "kiln.client/wedged";

}  // namespace

absl::Status WedgedStatus() {
  absl::Status status = Unavailable(
      "the daemon accepts connections but does not answer: it is stopped, stuck or starved");
  status.SetPayload(kWedgedUrl, absl::Cord("1"));
  return status;
}

bool IsWedgedStatus(const absl::Status& status) {
  return status.GetPayload(kWedgedUrl).has_value();
}

}  // namespace kiln
