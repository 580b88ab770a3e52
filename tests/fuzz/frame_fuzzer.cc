// What a worker writes on its job socket, and what a zygote answers: bytes of someone who may have
// been taken over.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/process/frame.h"
#include "daemon/sandbox/jail_description.h"
#include "daemon/worker/worker_protocol.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

const std::vector<std::string> kStages = {"ttgir", "ptx", "cubin"};

// Through a real socket, as a worker would send it.
void ReadFromSocket(std::string_view bytes) {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) std::abort();
  // More than the socket holds would wait for a reader.
  bytes = bytes.substr(0, 64 * limits::kKiB);
  if (::send(sockets[1], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) std::abort();
  ::close(sockets[1]);
  const auto frame = ReceiveFrame(sockets[0], {});
  ::close(sockets[0]);
  if (frame.ok()) DecodeResult(*frame, kStages).status().IgnoreError();
}

// Past the frame, where most of the fields are: the header up to the first zero byte, then the
// payload.
void ReadResult(std::string_view bytes) {
  Frame frame;
  frame.type = FrameType::kResult;
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  frame.header = bytes.substr(0, end);
  if (end < bytes.size()) frame.payload = bytes.substr(end + 1);
  const auto reply = DecodeResult(frame, kStages);
  if (!reply.ok() || reply->outcome != WorkerReply::Outcome::kCompiled) return;
  // What is believed adds up: every byte belongs to exactly one stage.
  size_t bytes_of_stages = 0;
  for (const StageOutput& stage : reply->stages) bytes_of_stages += stage.bytes.size();
  if (bytes_of_stages != frame.payload.size() || reply->stages.size() != kStages.size())
    std::abort();
}

void ReadJail(std::string_view bytes) {
  const auto json = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  const auto jail = DecodeJail(json);
  if (jail.ok() && EncodeJail(DecodeJail(EncodeJail(*jail)).value()) != EncodeJail(*jail)) {
    std::abort();
  }
  DecodeLimits(json).status().IgnoreError();
}

}  // namespace
}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      kiln::ReadFromSocket(bytes);
      break;
    case 1:
      kiln::ReadResult(bytes);
      break;
    default:
      kiln::ReadJail(bytes);
  }
  return 0;
}
