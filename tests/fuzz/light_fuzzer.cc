// What a client of the light protocol sends: bytes of any process of the machine, in pieces of any
// size.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/rpc/light/frame_reader.h"
#include "kiln/v1/kernel_service.pb.h"
#include "kiln/v1/light.pb.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr size_t kAdmittedBytesMax = 4096;

template <class Message>
void Parse(std::string_view body) {
  Message().ParseFromArray(body.data(), static_cast<int>(body.size()));
}

void Decode(const LightFrame& frame) {
  if (!frame.body.ok()) return;
  // Nothing is handed out that was not admitted.
  if (frame.body->size() > kAdmittedBytesMax) std::abort();
  switch (frame.method) {
    case v1::LIGHT_METHOD_COMPILE:
      return Parse<v1::CompileRequest>(*frame.body);
    case v1::LIGHT_METHOD_NEAREST:
      return Parse<v1::NearestRequest>(*frame.body);
    case v1::LIGHT_METHOD_PUT_OWN:
      return Parse<v1::PutOwnRequest>(*frame.body);
    case v1::LIGHT_METHOD_NOTE_USES:
      return Parse<v1::NoteUsesRequest>(*frame.body);
    default:
      return Parse<v1::LookupRequest>(*frame.body);
  }
}

// The requests of these bytes, or none where the client breaks the protocol.
size_t Read(std::string_view bytes, size_t piece_bytes) {
  LightFrameReader reader([](size_t frame_bytes) {
    return frame_bytes <= kAdmittedBytesMax ? absl::OkStatus() : ResourceExhausted("too much");
  });
  size_t count = 0;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece_bytes, bytes.size()))) {
    reader.Append(bytes.substr(0, piece_bytes));
    while (true) {
      const auto frame = reader.Next();
      if (!frame.ok()) return count;
      if (!*frame) break;
      Decode(**frame);
      ++count;
    }
  }
  return count;
}

}  // namespace
}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  // How the bytes were cut on their way makes no difference.
  if (kiln::Read(bytes, size_t{1} + data[0]) != kiln::Read(bytes, size)) std::abort();
  return 0;
}
