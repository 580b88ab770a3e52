// The client's side of the light protocol (protos/kiln/v1/light.proto), as bytes and as calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kiln/v1/kernel_service.pb.h"
#include "kiln/v1/light.pb.h"
#include "storage/base/unique_fd.h"

namespace kiln {

std::string LightFrameBytes(uint64_t id, int method, std::string_view body,
                            uint32_t timeout_ms = 0);

struct LightAnswer {
  uint64_t id = 0;
  int code = 0;
  std::string body;

  // The error, or the code alone where there is none.
  v1::RpcStatus status() const;
};

// Blocks. Not thread-safe.
class LightClient {
 public:
  // Says the preamble at once.
  explicit LightClient(UniqueFd socket);

  // False: the daemon closed the connection before it took all.
  bool SendBytes(std::string_view bytes);
  bool Send(uint64_t id, int method, const google::protobuf::MessageLite& request) {
    return SendBytes(LightFrameBytes(id, method, request.SerializeAsString()));
  }
  // Nothing: the daemon closed the connection, or says nothing for a minute.
  std::optional<LightAnswer> Receive();
  // One call on an otherwise idle connection.
  LightAnswer Call(int method, const google::protobuf::MessageLite& request,
                   uint32_t timeout_ms = 0);
  void Close() { socket_.Reset(); }
  int fd() const { return socket_.get(); }

 private:
  bool Read(char* bytes, size_t count);

  UniqueFd socket_;
  uint64_t last_id_ = 1000;
};

}  // namespace kiln
