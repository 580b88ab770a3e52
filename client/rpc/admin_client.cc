#include "client/rpc/admin_client.h"

#include <utility>

#include "client/rpc/connection.h"
#include "client/rpc/socket_path.h"
#include "client/rpc/watched_call.h"

namespace kiln {

using AdminStub = admin::v1::AdminService::Stub;

using OwnStub = admin::v1::OwnService::Stub;

AdminClient::AdminClient(std::unique_ptr<Connection> connection, bool is_own)
    : connection_(std::move(connection)), is_own_(is_own) {}
AdminClient::~AdminClient() = default;

absl::StatusOr<std::unique_ptr<AdminClient>> AdminClient::Connect(const ConnectOptions& options) {
  KILN_ASSIGN_OR_RETURN(auto connection, Connection::Open(options, kAdminSocket));
  return std::unique_ptr<AdminClient>(new AdminClient(std::move(connection), /*is_own=*/false));
}

absl::StatusOr<std::unique_ptr<AdminClient>> AdminClient::ConnectOwn(
    const ConnectOptions& options) {
  KILN_ASSIGN_OR_RETURN(auto connection, Connection::Open(options, kServiceSocket));
  return std::unique_ptr<AdminClient>(new AdminClient(std::move(connection), /*is_own=*/true));
}

#define KILN_ADMIN_CALL(Name)                                                                    \
  absl::StatusOr<admin::v1::Name##Response> AdminClient::Name(                                   \
      const CallOptions& options, const admin::v1::Name##Request& request) {                     \
    return connection_->Call(&Connection::Stubs::admin, &AdminStub::PrepareAsync##Name, request, \
                             options);                                                           \
  }

KILN_ADMIN_CALLS(KILN_ADMIN_CALL)

#define KILN_OWN_CALL(Name)                                                                      \
  absl::StatusOr<admin::v1::Name##Response> AdminClient::Name(                                   \
      const CallOptions& options, const admin::v1::Name##Request& request) {                     \
    if (is_own_) {                                                                               \
      return connection_->Call(&Connection::Stubs::own, &OwnStub::PrepareAsync##Name, request,   \
                               options);                                                         \
    }                                                                                            \
    return connection_->Call(&Connection::Stubs::admin, &AdminStub::PrepareAsync##Name, request, \
                             options);                                                           \
  }

KILN_OWN_CALLS(KILN_OWN_CALL)

absl::Status AdminClient::Verify(const std::function<void(const admin::v1::VerifyReport&)>& report,
                                 const CallOptions& options) {
  KILN_ASSIGN_OR_RETURN(const auto stubs, connection_->Get());
  return WatchedCall(*stubs->kernels, connection_->Limits(options))
      .Stream(*stubs->admin, &AdminStub::PrepareAsyncVerify, admin::v1::VerifyRequest(),
              [&](const admin::v1::VerifyReport& message) {
                report(message);
                return true;
              });
}

}  // namespace kiln
