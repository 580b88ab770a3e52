// One compile request as a JSON object. docs/cli.md describes its fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/cli/output/json.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln::cli {

// `folder` is what a `source_file` is relative to. INVALID_ARGUMENT names the place that is wrong,
// such as options.waves_per_eu; errors of reading the source are passed on.
[[nodiscard]] absl::StatusOr<v1::CompileRequest> ParseRequest(const Json& json,
                                                              const std::string& folder);

// What ParseRequest reads again, without `name`. Without the fields that say how to answer: stages,
// priority, job, cache policy.
[[nodiscard]] Json RequestJson(const v1::CompileRequest& request);

// The identity of a request in a manifest: of what RequestJson says, with the digest of the source
// in place of its text (docs/manifest.md).
[[nodiscard]] Digest RequestDigest(const v1::CompileRequest& request);

// Reads one field as a line has it. `place` is what errors call it.
[[nodiscard]] absl::Status SetField(std::string_view field, const Json& value,
                                    const std::string& place, v1::CompileRequest& request);

// "name=value" of the command line: a JSON scalar or array where the value reads as one, otherwise
// a string; null means absent. Each name once.
[[nodiscard]] absl::Status SetOptions(const std::vector<std::string>& assignments,
                                      v1::CompileRequest& request);

// INVALID_ARGUMENT: a folder, a pipe or a device. The system's own error: not there, or not
// readable.
[[nodiscard]] absl::Status CheckSource(const std::string& path);

// Reads a source, at most one byte over the limit: the client then says that it is too large.
[[nodiscard]] absl::StatusOr<std::string> ReadSource(const std::string& path);

// A name that fits the contract: valid UTF-8, at most 1 KiB.
[[nodiscard]] std::string ContractName(std::string_view name);

}  // namespace kiln::cli
