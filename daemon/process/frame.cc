#include "daemon/process/frame.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "storage/base/byte_codec.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr std::string_view kMagic = "KILN";
constexpr uint16_t kVersion = 1;
constexpr size_t kReadBytes = limits::kMiB;

// -1 where there is nothing but the socket to wait for. Rounded up, so that a poll never ends just
// before the deadline.
int PollMillis(const FrameWait& wait) {
  constexpr int64_t kLong = 1'000'000'000;
  if (!wait.deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wait.deadline -
                                                                 std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, kLong));
}

// OK when `events` are there for the socket.
absl::Status WaitFor(int socket, short events, const FrameWait& wait) {
  while (true) {
    std::array<pollfd, 3> polled{
        {{socket, events, 0}, {wait.wake_fd, POLLIN, 0}, {wait.peer_fd, POLLIN, 0}}};
    const int ready = ::poll(polled.data(), polled.size(), PollMillis(wait));
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
    if (ready < 0) continue;
    const bool is_late = wait.deadline && std::chrono::steady_clock::now() >= *wait.deadline;
    if (polled[1].revents != 0) return Cancelled("the caller went away");
    // POLLERR and POLLHUP count: the next read or write says what is the matter.
    if (polled[0].revents != 0) return absl::OkStatus();
    if (polled[2].revents != 0) return Unavailable("the peer is dead");
    if (is_late) return DeadlineExceeded("the deadline has passed");
  }
}

absl::Status SendAll(int socket, std::string_view bytes, const FrameWait& wait) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      KILN_RETURN_IF_ERROR(WaitFor(socket, POLLOUT, wait));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return Unavailable("the peer closed the connection");
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, "send");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReceiveExactly(int socket, uint64_t size, const FrameWait& wait) {
  std::string bytes;
  while (bytes.size() < size) {
    KILN_RETURN_IF_ERROR(WaitFor(socket, POLLIN, wait));
    const size_t have = bytes.size();
    bytes.resize(have + static_cast<size_t>(std::min<uint64_t>(size - have, kReadBytes)));
    const ssize_t got = ::recv(socket, bytes.data() + have, bytes.size() - have, MSG_DONTWAIT);
    bytes.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0)
      return Unavailable("the peer closed the connection after {} of {} bytes", have, size);
    if (got < 0 && errno == ECONNRESET) return Unavailable("the peer reset the connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR) return ErrnoStatus(errno, "recv");
  }
  return bytes;
}

}  // namespace

std::string FrameStart::Encode() const {
  ByteWriter writer;
  writer.Raw(kMagic);
  writer.Number(kVersion);
  writer.Number(static_cast<uint16_t>(type));
  writer.Number(header_bytes);
  writer.Number(id);
  writer.Number(payload_bytes);
  return writer.Take();
}

absl::StatusOr<FrameStart> FrameStart::Decode(std::string_view bytes) {
  if (bytes.size() != kSizeBytes)
    return Internal("a frame starts with {} bytes, got {}", kSizeBytes, bytes.size());
  ByteReader reader(bytes);
  if (reader.Raw(kMagic.size()) != kMagic) return Internal("not a frame: wrong magic");
  if (const auto version = reader.Number<uint16_t>(); version != kVersion) {
    return Internal("a frame of version {}, expected {}", version, kVersion);
  }
  const auto type = reader.Number<uint16_t>();
  if (type < static_cast<uint16_t>(FrameType::kCompile) ||
      type > static_cast<uint16_t>(FrameType::kReady)) {
    return Internal("a frame of unknown type {}", type);
  }
  FrameStart start;
  start.type = static_cast<FrameType>(type);
  start.header_bytes = reader.Number<uint32_t>();
  start.id = reader.Number<uint32_t>();
  start.payload_bytes = reader.Number<uint64_t>();
  if (start.header_bytes > limits::kFrameHeaderBytesMax) {
    return Internal("a frame's header of {} bytes is over the limit of {}", start.header_bytes,
                    limits::kFrameHeaderBytesMax);
  }
  if (start.payload_bytes > limits::kFramePayloadBytesMax) {
    return Internal("a frame's payload of {} bytes is over the limit of {}", start.payload_bytes,
                    limits::kFramePayloadBytesMax);
  }
  return start;
}

absl::Status SendFrame(int socket, FrameType type, uint32_t id, std::string_view header,
                       std::string_view payload, const FrameWait& wait) {
  FrameStart start;
  start.type = type;
  start.id = id;
  start.header_bytes = static_cast<uint32_t>(header.size());
  start.payload_bytes = payload.size();
  std::string front = start.Encode();
  front += header;
  KILN_RETURN_IF_ERROR(SendAll(socket, front, wait));
  return SendAll(socket, payload, wait);
}

absl::StatusOr<Frame> ReceiveFrame(int socket, const FrameWait& wait) {
  KILN_ASSIGN_OR_RETURN(const std::string raw,
                        ReceiveExactly(socket, FrameStart::kSizeBytes, wait));
  KILN_ASSIGN_OR_RETURN(const FrameStart start, FrameStart::Decode(raw));
  Frame frame;
  frame.type = start.type;
  frame.id = start.id;
  KILN_ASSIGN_OR_RETURN(frame.header, ReceiveExactly(socket, start.header_bytes, wait));
  KILN_ASSIGN_OR_RETURN(frame.payload, ReceiveExactly(socket, start.payload_bytes, wait));
  return frame;
}

}  // namespace kiln
