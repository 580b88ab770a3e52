#include <grpcpp/create_channel_posix.h>
#include <grpcpp/support/channel_arguments.h>

#include "client/rpc/reconnecting_stub.h"
#include "storage/base/limits.h"

namespace kiln {

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const DialOptions& options) {
  KILN_ASSIGN_OR_RETURN(const int descriptor, Dial(options));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(limits::kClientReceiveBytesMax);
  arguments.SetMaxSendMessageSize(limits::kRequestBytesMax);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, limits::kMetadataBytesMax);
  arguments.SetUserAgentPrefix("kiln/" KILN_VERSION);
  return grpc::CreateCustomInsecureChannelFromFd("kilnd", descriptor, arguments);
}

}  // namespace kiln
