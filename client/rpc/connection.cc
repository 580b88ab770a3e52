#include "client/rpc/connection.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/support/channel_arguments.h>

#include <utility>

#include "client/rpc/dial.h"
#include "client/rpc/forks.h"
#include "client/rpc/socket_path.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

// gRPC cannot make a connection again that it did not make itself. When the connection breaks, the
// channel fails every call with UNAVAILABLE from then on.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const ConnectOptions& options) {
  if (!MayUseGrpc()) {
    return FailedPrecondition(
        "this process was forked from one that uses gRPC: it can compile, and not call otherwise");
  }
  KILN_ASSIGN_OR_RETURN(const int descriptor, Dial(options));
  NoteGrpcStart();
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

absl::StatusOr<ConnectOptions> Connection::Locate(const ConnectOptions& options,
                                                  std::string_view socket_file) {
  ConnectOptions located = options;
  KILN_ASSIGN_OR_RETURN(
      located.socket_path,
      FindSocket(options.socket_path, options.root, socket_file, SocketSurroundings::OfProcess()));
  return located;
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const ConnectOptions& options,
                                                             std::string_view socket_file) {
  KILN_ASSIGN_OR_RETURN(ConnectOptions located, Locate(options, socket_file));
  auto connection = std::make_unique<Connection>(std::move(located));
  KILN_RETURN_IF_ERROR(connection->Reach());
  return connection;
}

absl::Status Connection::Reach() {
  KILN_ASSIGN_OR_RETURN(const auto stubs, Get());
  return ShowsLife(*stubs->kernels, options_.answer_budget) ? absl::OkStatus() : WedgedStatus();
}

absl::StatusOr<std::shared_ptr<Connection::Stubs>> Connection::Get() {
  const MutexLock lock(mutex_);
  if (stubs_ == nullptr) {
    KILN_ASSIGN_OR_RETURN(const auto channel, OpenChannel(options_));
    stubs_ = std::make_shared<Stubs>(Stubs{v1::KernelService::NewStub(channel),
                                           admin::v1::AdminService::NewStub(channel),
                                           admin::v1::OwnService::NewStub(channel)});
    away_until_ = {};
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
  const bool is_away = IsAway();
  while (true) {
    const auto stubs = Get();
    const absl::Status status = stubs.ok() ? attempt(**stubs) : stubs.status();
    if (stubs.ok() && absl::IsUnavailable(status)) Drop(*stubs);
    if (is_away && !stubs.ok()) return status;
    if (WaitBeforeRepeating(status, backoff, options.deadline)) continue;
    if (absl::IsUnavailable(stubs.status())) SetAway();
    return status;
  }
}

bool Connection::IsAway() {
  const MutexLock lock(mutex_);
  return std::chrono::steady_clock::now() < away_until_;
}

void Connection::SetAway() {
  const MutexLock lock(mutex_);
  away_until_ = std::chrono::steady_clock::now() + kAwayTime;
}

}  // namespace kiln
