// The lines of the log that tell what was compiled, for whom, and what failed.
#pragma once

#include <chrono>
#include <string_view>

#include "daemon/kernel/compile_job.h"
#include "storage/base/call_context.h"
#include "storage/base/status.h"

namespace kiln {

// One line for each answer. At level info: a compile, and a failure that a compile found out. At
// level debug, which costs nothing where it is not written: hits, joined requests, remembered
// failures, and whatever a client can have refused as often as it likes. `job` may be null: the
// request has no key. `context` is the caller's, whose job is `job_name`.
void LogAnswer(const CallContext& context, std::string_view job_name, const CompileJob* job,
               const absl::StatusOr<CompileResult>& answer, std::chrono::microseconds waited = {});

}  // namespace kiln
