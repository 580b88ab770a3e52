#include "client/rpc/connection.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/support/channel_arguments.h>

#include <utility>

#include "client/rpc/dial.h"
#include "client/rpc/socket_path.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

// gRPC cannot make a connection again that it did not make itself. When the connection breaks, the
// channel fails every call with UNAVAILABLE from then on.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const ConnectOptions& options) {
  KILN_ASSIGN_OR_RETURN(const int descriptor, Dial(options));
  // Keeps gRPC to the end of the process: ending it may wait 10 s for a poll of its own.
  [[maybe_unused]] static const bool kept = (grpc_init(), true);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(limits::kClientReceiveBytesMax);
  arguments.SetMaxSendMessageSize(limits::kRequestBytesMax);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, limits::kMetadataBytesMax);
  arguments.SetUserAgentPrefix("kiln/" KILN_VERSION);
  return grpc::CreateCustomInsecureChannelFromFd("kilnd", descriptor, arguments);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const ConnectOptions& options,
                                                             std::string_view socket_file) {
  ConnectOptions found = options;
  KILN_ASSIGN_OR_RETURN(
      found.socket_path,
      FindSocket(options.socket_path, options.root, socket_file, SocketSurroundings::OfProcess()));
  std::unique_ptr<Connection> connection(new Connection(std::move(found)));
  // Does not repeat: the caller wants to know now.
  KILN_ASSIGN_OR_RETURN(const auto stubs, connection->Get());
  if (!ShowsLife(*stubs->kernels, options.answer_budget)) return WedgedStatus();
  return connection;
}

absl::StatusOr<std::shared_ptr<Connection::Stubs>> Connection::Get() {
  const MutexLock lock(mutex_);
  if (stubs_ == nullptr) {
    KILN_ASSIGN_OR_RETURN(const auto channel, OpenChannel(options_));
    stubs_ = std::make_shared<Stubs>(Stubs{v1::KernelService::NewStub(channel),
                                           admin::v1::AdminService::NewStub(channel),
                                           admin::v1::OwnService::NewStub(channel)});
  }
  return stubs_;
}

void Connection::Drop(const std::shared_ptr<Stubs>& broken) {
  const MutexLock lock(mutex_);
  if (stubs_ == broken) stubs_ = nullptr;
}

absl::StatusOr<UniqueFd> Connection::DialAnother() const {
  KILN_ASSIGN_OR_RETURN(const int descriptor, Dial(options_));
  return UniqueFd(descriptor);
}

absl::Status Connection::Repeatedly(const CallOptions& options,
                                    const std::function<absl::Status(Stubs&)>& attempt) {
  Backoff backoff(options_.retry);
  while (true) {
    const auto stubs = Get();
    const absl::Status status = stubs.ok() ? attempt(**stubs) : stubs.status();
    if (stubs.ok() && absl::IsUnavailable(status)) Drop(*stubs);
    if (!WaitBeforeRepeating(status, backoff, options.deadline)) return status;
  }
}

}  // namespace kiln
