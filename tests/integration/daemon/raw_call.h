// Calls of services whose messages are not at hand.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace kiln {

// Sends one message, and says no more; the first message that comes back, or "" with the call's
// status.
struct RawAnswer {
  grpc::Status status;
  std::string message;
};
RawAnswer CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                  const std::string& message);

// A connection to a socket of the daemon's. As `uid` where one is given, for which the caller must
// be root.
std::shared_ptr<grpc::Channel> ConnectTo(const std::string& socket);
std::shared_ptr<grpc::Channel> ConnectAs(uid_t uid, const std::string& socket);

}  // namespace kiln
