// A daemon, found on its socket and connected to again whenever the connection breaks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "client/rpc/client.h"
#include "client/rpc/watched_call.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// Thread-safe; every method blocks.
class Connection {
 public:
  // gRPC's stubs, one for each service of the daemon. Both sockets serve `kernels`, the
  // administration socket `admin`, the other one `own`.
  struct Stubs {
    std::unique_ptr<KernelStub> kernels;
    std::unique_ptr<admin::v1::AdminService::Stub> admin;
    std::unique_ptr<admin::v1::OwnService::Stub> own;
  };

  // The options with the path of the socket, which `socket_file` names in its directory. Errors as
  // Client::Connect.
  [[nodiscard]] static absl::StatusOr<ConnectOptions> Locate(const ConnectOptions& options,
                                                             std::string_view socket_file);

  // Locates the socket and connects now. Errors as Client::Connect.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Connection>> Open(
      const ConnectOptions& options, std::string_view socket_file);

  // Connects with the first call. REQUIRES: the options have the path of the socket.
  explicit Connection(ConnectOptions options) : options_(std::move(options)) {}

  // Connects now, and asks for a sign of life. Errors as Client::Connect. Does not repeat: the
  // caller wants to know now.
  [[nodiscard]] absl::Status Reach();

  // The present stubs, or new ones where there are none. Errors as in Dial.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Stubs>> Get();
  // `broken` failed with UNAVAILABLE; other threads may have replaced them already.
  void Drop(const std::shared_ptr<Stubs>& broken);

  // A connection to the daemon that gRPC does not have. Errors as in Dial.
  [[nodiscard]] absl::StatusOr<UniqueFd> DialAnother() const;

  // `attempt` is given stubs and returns the call's status. Repeats the call on a new connection
  // where that can help.
  [[nodiscard]] absl::Status Repeatedly(const CallOptions& options,
                                        const std::function<absl::Status(Stubs&)>& attempt);

  // A call with one answer of one of the services.
  template <typename Stub, typename Request, typename Response>
  [[nodiscard]] absl::StatusOr<Response> Call(std::unique_ptr<Stub> Stubs::*service,
                                              UnaryMethod<Stub, Request, Response> method,
                                              const Request& request, const CallOptions& options) {
    Response response;
    KILN_RETURN_IF_ERROR(Repeatedly(options, [&](Stubs& stubs) {
      return WatchedCall(*stubs.kernels, Limits(options))
          .Unary(*(stubs.*service), method, request, response);
    }));
    return response;
  }

  CallLimits Limits(const CallOptions& options) const {
    return {options_.answer_budget, options.deadline};
  }
  const RetryOptions& retry() const { return options_.retry; }
  const std::string& socket_path() const { return options_.socket_path; }

 private:
  // After so many attempts in vain, calls make one attempt each for a while.
  static constexpr std::chrono::seconds kAwayTime{3};

  bool IsAway();
  void SetAway();

  const ConnectOptions options_;
  Mutex mutex_;
  std::shared_ptr<Stubs> stubs_ KILN_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point away_until_ KILN_GUARDED_BY(mutex_){};
};

}  // namespace kiln
