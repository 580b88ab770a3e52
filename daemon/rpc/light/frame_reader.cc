#include "daemon/rpc/light/frame_reader.h"

#include <endian.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kHeaderBytes = 13;  // that the length counts
constexpr size_t kKeptBytesMax = 256 * limits::kKiB;

template <class Integer>
Integer Load(std::string_view bytes) {
  Integer value;
  std::memcpy(&value, bytes.data(), sizeof value);
  if constexpr (sizeof value == 8) return le64toh(value);
  return le32toh(static_cast<uint32_t>(value));
}

}  // namespace

void LightFrameReader::Append(std::string_view bytes) {
  bytes_.erase(0, read_bytes_);
  read_bytes_ = 0;
  bytes_.append(bytes);
}

absl::StatusOr<std::optional<LightFrame>> LightFrameReader::Next() {
  if (rest().empty() && bytes_.capacity() > kKeptBytesMax) {
    bytes_ = std::string();  // of a large request that is over
    read_bytes_ = 0;
  }
  const size_t skipped = std::min(skip_bytes_, rest().size());
  read_bytes_ += skipped;
  skip_bytes_ -= skipped;
  if (!has_greeted_) {
    const std::string_view preamble = rest().substr(0, kLightPreamble.size());
    if (!kLightPreamble.starts_with(preamble)) return InvalidArgument("not the light protocol");
    if (preamble.size() < kLightPreamble.size()) return std::nullopt;
    has_greeted_ = true;
    read_bytes_ += kLightPreamble.size();
  }
  if (rest().size() < kLengthBytes) return std::nullopt;
  const size_t length = Load<uint32_t>(rest());
  if (length < kHeaderBytes) return InvalidArgument("a frame of {} bytes", length);
  if (rest().size() < kLengthBytes + kHeaderBytes) return std::nullopt;
  const size_t frame_bytes = kLengthBytes + length;
  LightFrame frame{Load<uint64_t>(rest().substr(4)), Load<uint32_t>(rest().substr(12)),
                   static_cast<uint8_t>(rest()[16]), std::string_view()};
  const size_t body_bytes = length - kHeaderBytes;
  if (body_bytes > limits::kRequestBytesMax) {
    return Skip(std::move(frame), frame_bytes,
                ResourceExhausted("the request has {} bytes; at most {} are accepted", body_bytes,
                                  limits::kRequestBytesMax));
  }
  if (!is_admitted_) {
    if (absl::Status admitted = admit_(frame_bytes); !admitted.ok()) {
      return Skip(std::move(frame), frame_bytes, std::move(admitted));
    }
    is_admitted_ = true;
    bytes_.reserve(read_bytes_ + frame_bytes);
  }
  if (rest().size() < frame_bytes) return std::nullopt;
  frame.body = rest().substr(kLengthBytes + kHeaderBytes, body_bytes);
  is_admitted_ = false;
  read_bytes_ += frame_bytes;
  return frame;
}

LightFrame LightFrameReader::Skip(LightFrame frame, size_t frame_bytes, absl::Status why) {
  frame.body = std::move(why);
  const size_t here = std::min(frame_bytes, rest().size());
  read_bytes_ += here;
  skip_bytes_ = frame_bytes - here;
  return frame;
}

}  // namespace kiln
