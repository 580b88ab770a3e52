// Asks the daemon on its administration socket, for the kiln command.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/rpc/client.h"
#include "kiln/admin/v1/admin_service.pb.h"

namespace kiln {

// Errors as in Client. Thread-safe; every method blocks, for as long as its deadline.
class AdminClient {
 public:
  // `options.socket_path` is the administration socket; where it is empty, the rest of the options
  // finds it as for Client.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AdminClient>> Connect(
      const ConnectOptions& options);
  ~AdminClient();
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  [[nodiscard]] absl::StatusOr<admin::v1::GetStatsResponse> GetStats(const CallOptions& options);
  // One page.
  [[nodiscard]] absl::StatusOr<admin::v1::ListArtifactsResponse> ListArtifacts(
      const admin::v1::ListArtifactsRequest& request, const CallOptions& options);
  [[nodiscard]] absl::StatusOr<admin::v1::InspectArtifactResponse> InspectArtifact(
      const std::string& key_prefix, const CallOptions& options);
  [[nodiscard]] absl::StatusOr<admin::v1::GetRequestResponse> GetRequest(
      const std::string& key_prefix, const CallOptions& options);
  [[nodiscard]] absl::StatusOr<admin::v1::EvictResponse> Evict(
      const admin::v1::EvictRequest& request, const CallOptions& options);
  // `key` is 32 raw bytes.
  [[nodiscard]] absl::Status SetPinned(const std::string& key, bool pinned,
                                       const CallOptions& options);
  // Hands over each report as it comes; the last one has `done`.
  [[nodiscard]] absl::Status Verify(
      const std::function<void(const admin::v1::VerifyReport&)>& report,
      const CallOptions& options);

  [[nodiscard]] absl::StatusOr<admin::v1::ListToolchainsResponse> ListToolchains(
      const CallOptions& options);
  // OK: what is installed now can be named by requests.
  [[nodiscard]] absl::Status ReloadToolchains(const CallOptions& options);
  [[nodiscard]] absl::Status SetDefaultToolchain(const std::string& selector,
                                                 const CallOptions& options);

  [[nodiscard]] absl::StatusOr<admin::v1::AddToolchainResponse> AddToolchain(
      const admin::v1::AddToolchainRequest& request, const CallOptions& options);
  [[nodiscard]] absl::StatusOr<admin::v1::RemoveToolchainResponse> RemoveToolchain(
      const std::string& selector, const CallOptions& options);

  // The daemon answers what it has begun and ends. OK: it has been told to, not: it is gone.
  [[nodiscard]] absl::Status Drain(const CallOptions& options);

  const std::string& socket_path() const;

 private:
  class Core;
  explicit AdminClient(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace kiln
