// A folder with which one compile can be repeated by hand.
#pragma once

#include <map>
#include <string>

#include "kiln/admin/v1/admin_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// The folder's files, by name:
//
//   kernel.ttir    the source; .ttgir, .cu or .ptx by its kind
//   request.jsonl  the request, for `kiln compile --requests`
//   expected.json  key, toolchain, and what came of it: the stages' digests, or the failure
//   reproduce.py   compiles it with the toolchain alone
//
using Reproducer = std::map<std::string, std::string>;

// INTERNAL where the daemon's answer makes no sense.
[[nodiscard]] absl::StatusOr<Reproducer> MakeReproducer(const admin::v1::GetRequestResponse& found);

// Makes `directory` where it is missing, parents included. Each file appears complete or not at all
// and replaces one of an earlier run.
[[nodiscard]] absl::Status WriteReproducer(const Reproducer& reproducer,
                                           const std::string& directory);

}  // namespace kiln::cli
