// The folder with which a person repeats one compile by hand.
#pragma once

#include <map>
#include <string>

#include "kiln/admin/v1/admin_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// The content of the folder's files, by name:
//
//   kernel.ttir    the source; .ttgir, .cu or .ptx by its kind
//   request.jsonl  the request, for `kiln compile --requests`
//   expected.json  key, toolchain, and the result: the stages' digests, or the failure
//   reproduce.py   compiles the source with the toolchain alone; imports common.py and origins.py
//
using Reproducer = std::map<std::string, std::string>;

// INTERNAL where the daemon's answer makes no sense. NOT_FOUND where the scripts are not installed.
[[nodiscard]] absl::StatusOr<Reproducer> MakeReproducer(const admin::v1::GetRequestResponse& found);

// Makes `directory` and its parents. Each file appears complete or not at all, and replaces a file
// of an earlier run.
[[nodiscard]] absl::Status WriteReproducer(const Reproducer& reproducer,
                                           const std::string& directory);

}  // namespace kiln::cli
