// Refuses before sending what the daemon would refuse after receiving.
#pragma once

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln {

// RESOURCE_EXHAUSTED where the source or the whole request is over the limit; gRPC itself would end
// the whole stream.
[[nodiscard]] absl::Status CheckSize(const v1::CompileRequest& request);
[[nodiscard]] absl::Status CheckSize(const v1::PutOwnRequest& request);

}  // namespace kiln
