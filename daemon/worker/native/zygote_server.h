// The zygote's side of daemon/pool/zygote.h: forks workers at the daemon's request.
#pragma once

#include <sys/types.h>

#include <nlohmann/json_fwd.hpp>
#include <set>

#include "daemon/worker/native/large_pages.h"
#include "daemon/worker/native/native_compiler.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// What protocol.md says of a zygote: who reaps whom, and what happens when a process dies. One
// thread; one request at a time.
class ZygoteServer {
 public:
  // Says hello on the control socket. `compiler` outlives the server.
  ZygoteServer(UniqueFd control, NativeCompiler& compiler);
  ZygoteServer(const ZygoteServer&) = delete;
  ZygoteServer& operator=(const ZygoteServer&) = delete;

  // Until the daemon closes the socket or SIGTERM comes; then all workers are killed. In a forked
  // worker it never returns.
  absl::Status Serve();

 private:
  struct Request;

  // Nothing at the end.
  absl::StatusOr<std::optional<Request>> Receive();
  absl::StatusOr<nlohmann::json> Answer(Request& request);
  absl::StatusOr<nlohmann::json> Fork(Request& request);
  nlohmann::json Reap(pid_t worker);
  void EndOrphans();
  void Send(const nlohmann::json& message);

  UniqueFd control_;
  UniqueFd terminated_;  // a signalfd: readable when SIGTERM came
  NativeCompiler& compiler_;
  const FreshHeap heap_;
  std::set<pid_t> workers_;
};

// Ties this process to its parent: `signal_number` comes when that dies. Ends this process where it
// is dead already.
void DieWith(pid_t parent, int signal_number);

// FAILED_PRECONDITION where this process has threads or has opened a GPU driver: a forked child of
// it would be broken.
absl::Status CheckForkable();

}  // namespace kiln
