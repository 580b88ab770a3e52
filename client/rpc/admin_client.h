// Asks the daemon on its administration socket, for the kiln command.
#pragma once

#include <functional>
#include <memory>

#include "client/rpc/client.h"
#include "kiln/admin/v1/admin_service.pb.h"

namespace kiln {

class Connection;

// Errors as in Client. Thread-safe; every method blocks, for as long as its deadline.
class AdminClient {
 public:
  // `options.socket_path` is the administration socket; where it is empty, the rest of the options
  // finds it as for Client.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AdminClient>> Connect(
      const ConnectOptions& options);
  // The clients' socket instead. The KILN_OWN_CALLS then tell of the caller's own jobs, and every
  // other call is PERMISSION_DENIED.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AdminClient>> ConnectOwn(
      const ConnectOptions& options);
  ~AdminClient();
  bool is_own() const { return is_own_; }
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

// The calls of AdminService with one answer. protos/ describes them.
// clang-format off
#define KILN_OWN_CALLS(CALL) CALL(GetStats) CALL(ListArtifacts) CALL(ListRequests) CALL(GetRequest) CALL(ListToolchains)
#define KILN_ADMIN_CALLS(CALL)                                        \
  CALL(InspectArtifact) CALL(ExportArtifacts) CALL(ImportBlock)       \
  CALL(Evict) CALL(Pin)                                               \
  CALL(ReloadToolchains)                                              \
  CALL(SetDefaultToolchain) CALL(AddToolchain) CALL(RemoveToolchain)  \
  CALL(Drain)
// clang-format on
#define KILN_ADMIN_CALL(Name)                                   \
  [[nodiscard]] absl::StatusOr<admin::v1::Name##Response> Name( \
      const CallOptions& options, const admin::v1::Name##Request& request = {});
  KILN_OWN_CALLS(KILN_ADMIN_CALL)
  KILN_ADMIN_CALLS(KILN_ADMIN_CALL)
#undef KILN_ADMIN_CALL

  // Hands over each report as it comes; the last one has `done`. Does not repeat: a second call
  // would start from the beginning.
  [[nodiscard]] absl::Status Verify(
      const std::function<void(const admin::v1::VerifyReport&)>& report,
      const CallOptions& options);

 private:
  AdminClient(std::unique_ptr<Connection> connection, bool is_own);
  const std::unique_ptr<Connection> connection_;
  const bool is_own_;
};

}  // namespace kiln
