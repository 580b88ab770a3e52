#include "client/rpc/request_size.h"

#include "storage/base/limits.h"

namespace kiln {

absl::Status CheckSize(const v1::CompileRequest& request) {
  const size_t source_bytes = request.source().text().size();
  if (source_bytes > limits::kSourceBytesMax) {
    return ResourceExhausted(
        "the source is longer than {} MiB, the most that is compiled: is this the right file?",
        limits::kSourceBytesMax / limits::kMiB);
  }
  // gRPC counts the stream's envelope too.
  const size_t request_bytes = request.ByteSizeLong();
  if (request_bytes + limits::kKiB > limits::kRequestBytesMax) {
    return ResourceExhausted(
        "the request is {} bytes long, the limit is {}: its options or "
        "parameters are too large",
        request_bytes, limits::kRequestBytesMax - limits::kKiB);
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const v1::PutOwnRequest& request) {
  const size_t bytes = request.ByteSizeLong();
  if (bytes + limits::kKiB <= limits::kRequestBytesMax) return absl::OkStatus();
  return ResourceExhausted("{} bytes of entries, the limit is {}: put them in several calls", bytes,
                           limits::kRequestBytesMax - limits::kKiB);
}

}  // namespace kiln
