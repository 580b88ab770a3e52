// One worker, from fork to the end of its process group.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/pool/zygote.h"
#include "daemon/process/frame.h"
#include "daemon/process/output_capture.h"
#include "daemon/worker/worker_protocol.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// One compile, as it goes to a worker. The views live as long as `owner`.
struct WorkerRequest {
  std::string header;               // EncodeCompileHeader's
  std::string_view payload;         // the source
  std::vector<std::string> stages;  // that the answer must have
  std::shared_ptr<const void> owner;
};

// Not thread-safe. Its directory is its own: everything in it is removed before each compile and in
// the end.
class WorkerProcess {
 public:
  // UNAVAILABLE when the zygote is dead.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(std::shared_ptr<Zygote> zygote,
                                                              const std::string& directory,
                                                              const WorkerLimits& limits);
  ~WorkerProcess();

  // Empties its directory, as is due before each compile. An error says nothing of the source, nor
  // of the worker.
  absl::Status Prepare();
  // REQUIRES: prepared since the last one. Blocks for one compile. After any error the worker is of
  // no further use: DEADLINE_EXCEEDED and CANCELLED as `wait` says, UNAVAILABLE when it died,
  // INTERNAL when it answered nonsense, any when it took too much.
  absl::StatusOr<WorkerReply> Run(const WorkerRequest& request, FrameWait wait);

  // Kills it with everything in its process group, without waiting for anything. End() is still
  // due.
  void Kill();
  // The same, and waits until it is gone. How it had ended, where it did so by itself ("SIGSEGV");
  // idempotent.
  std::string End();

  // Whether it waits for work, having said nothing that it was not asked.
  bool IsReady() const;
  // Whether the last compile took more of the disk, or of processes, than it may.
  bool TookTooMuch() const { return took_too_much_; }
  int compiles() const { return compiles_; }
  // The end of what it wrote during the last compile.
  std::string LastWords(size_t bytes_max) const { return output_.Tail(bytes_max); }
  const Zygote& zygote() const { return *zygote_; }

 private:
  WorkerProcess(std::shared_ptr<Zygote> zygote, std::string directory, UniqueFd socket,
                OutputCapture output, const WorkerLimits& limits);
  // Now and then, while it compiles. Where it is not possible to look, nothing is the matter.
  absl::Status Look(const std::function<bool()>& is_pointless);
  absl::Status LookAtThreads(const std::vector<pid_t>& processes);
  absl::Status LookAtHoldings(const std::vector<pid_t>& processes,
                              const std::function<bool()>& is_pointless);
  // `what` is told to whoever asked for the compile.
  absl::Status TooMuch(const std::string& what);

  const std::shared_ptr<Zygote> zygote_;
  const std::string directory_;
  const WorkerLimits limits_;
  UniqueFd socket_;
  OutputCapture output_;
  UniqueFd process_;  // a pidfd
  pid_t pid_ = -1;
  int compiles_ = 0;
  SteadyTime next_look_{};
  bool took_too_much_ = false;
  bool could_not_look_ = false;  // during this compile, which the log says once
};

}  // namespace kiln
