// Requests of the light protocol (protos/kiln/v1/light.proto), out of the bytes of a connection.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "storage/base/status.h"

namespace kiln {

inline constexpr std::string_view kLightPreamble = "kiln/1\r\n";

struct LightFrame {
  uint64_t id = 0;
  uint32_t timeout_ms = 0;
  uint8_t method = 0;
  // Valid until the reader is used again. An error: why the body was skipped.
  absl::StatusOr<std::string_view> body;
};

// Holds what has come of one request at most, and what came with its end. Not thread-safe.
class LightFrameReader {
 public:
  // Asked once for each request that is within the limits, as soon as its header is there: may its
  // frame of so many bytes be kept?
  using Admit = std::function<absl::Status(size_t frame_bytes)>;
  explicit LightFrameReader(Admit admit) : admit_(std::move(admit)) {}

  // REQUIRES: Next gave nothing since the last Append, or what it left is meant to grow.
  void Append(std::string_view bytes);
  // The next request; nothing where more bytes are needed. INVALID_ARGUMENT: the client does not
  // speak this protocol, and nothing that follows can be understood.
  absl::StatusOr<std::optional<LightFrame>> Next();

 private:
  std::string_view rest() const { return std::string_view(bytes_).substr(read_bytes_); }
  // The request whose body is skipped.
  LightFrame Skip(LightFrame frame, size_t frame_bytes, absl::Status why);

  const Admit admit_;
  std::string bytes_;
  size_t read_bytes_ = 0;  // at the beginning of bytes_
  size_t skip_bytes_ = 0;  // of what comes next
  bool has_greeted_ = false;
  bool is_admitted_ = false;  // the request that has begun
};

}  // namespace kiln
