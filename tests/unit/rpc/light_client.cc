#include "tests/unit/rpc/light_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstring>

namespace kiln {
namespace {

template <class Integer>
void AppendInteger(Integer value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);  // little-endian, as we are
}

}  // namespace

std::string LightFrameBytes(uint64_t id, int method, std::string_view body, uint32_t timeout_ms) {
  std::string frame;
  AppendInteger(static_cast<uint32_t>(13 + body.size()), frame);
  AppendInteger(id, frame);
  AppendInteger(timeout_ms, frame);
  AppendInteger(static_cast<uint8_t>(method), frame);
  return frame.append(body);
}

v1::RpcStatus LightAnswer::status() const {
  v1::RpcStatus status;
  if (code == 0) return status;
  EXPECT_TRUE(status.ParseFromString(body));
  EXPECT_EQ(status.code(), code);
  return status;
}

LightClient::LightClient(UniqueFd socket) : socket_(std::move(socket)) {
  const timeval patience{60, 0};
  EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  SendBytes("kiln/1\r\n");
}

bool LightClient::SendBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool LightClient::Read(char* bytes, size_t count) {
  return ::recv(socket_.get(), bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count);
}

std::optional<LightAnswer> LightClient::Receive() {
  char header[13];
  if (!Read(header, sizeof header)) return std::nullopt;
  uint32_t length = 0;
  LightAnswer answer;
  std::memcpy(&length, header, sizeof length);
  std::memcpy(&answer.id, header + 4, sizeof answer.id);
  answer.code = static_cast<unsigned char>(header[12]);
  EXPECT_GE(length, 9u);
  answer.body.resize(length - 9);
  // A receive without a byte would tell the end of the connection.
  if (!answer.body.empty() && !Read(answer.body.data(), answer.body.size())) return std::nullopt;
  return answer;
}

LightAnswer LightClient::Call(int method, const google::protobuf::MessageLite& request,
                              uint32_t timeout_ms) {
  const uint64_t id = ++last_id_;
  EXPECT_TRUE(SendBytes(LightFrameBytes(id, method, request.SerializeAsString(), timeout_ms)));
  std::optional<LightAnswer> answer = Receive();
  EXPECT_TRUE(answer.has_value()) << "the daemon closed the connection";
  if (!answer) return {id, -1, {}};
  EXPECT_EQ(answer->id, id);
  return *std::move(answer);
}

}  // namespace kiln
