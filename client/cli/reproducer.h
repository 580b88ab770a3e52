// A folder with which one compile can be repeated by hand.
#pragma once

#include <string>

#include "kiln/admin/v1/admin_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Writes into `directory`, which is made where it is missing, parents included:
//
//   kernel.ttir    the source; .ttgir, .cu or .ptx by its kind
//   request.jsonl  the request, for `kiln compile --requests`
//   expected.json  key, toolchain, and what came of it: the stages' digests, or the failure
//   reproduce.py   compiles it with the toolchain alone
//
// Each file appears complete or not at all and replaces one of an earlier run. INTERNAL where the
// daemon's answer makes no sense.
[[nodiscard]] absl::Status WriteReproducer(const admin::v1::GetRequestResponse& found,
                                           const std::string& directory);

}  // namespace kiln::cli
