// Messages on a worker's socket. protocol.md has the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace kiln {

enum class FrameType : uint16_t { kCompile = 1, kResult = 2, kReady = 3 };

struct Frame {
  FrameType type = FrameType::kCompile;
  // Chosen by the side that asks, echoed by the side that answers.
  uint32_t id = 0;
  std::string header;   // JSON
  std::string payload;  // raw bytes
};

// The fixed part in front of each frame.
struct FrameStart {
  static constexpr size_t kSizeBytes = 24;

  FrameType type = FrameType::kCompile;
  uint32_t id = 0;
  uint32_t header_bytes = 0;
  uint64_t payload_bytes = 0;

  std::string Encode() const;
  // INTERNAL where `bytes` are not kSizeBytes, no frame of this protocol, or over the limits.
  static absl::StatusOr<FrameStart> Decode(std::string_view bytes);
};

// What ends the waiting for a socket.
struct FrameWait {
  std::optional<SteadyTime> deadline;
  int wake_fd = -1;  // readable: CANCELLED
  // A pidfd, readable once the peer is dead: UNAVAILABLE, after everything it wrote was read.
  int peer_fd = -1;
};

// Both block until done, or return as `wait` says: DEADLINE_EXCEEDED, CANCELLED, or UNAVAILABLE
// when the peer is gone. After an error the stream is out of step: close it. One thread at a time
// per direction. The socket may be blocking or not.
absl::Status SendFrame(int socket, FrameType type, uint32_t id, std::string_view header,
                       std::string_view payload, const FrameWait& wait);
// Memory is taken as bytes arrive, never for what is only announced.
absl::StatusOr<Frame> ReceiveFrame(int socket, const FrameWait& wait);

}  // namespace kiln
