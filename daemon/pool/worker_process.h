// One worker, from fork to the end of its process group.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/pool/zygote.h"
#include "daemon/process/frame.h"
#include "daemon/process/output_capture.h"
#include "daemon/worker/worker_protocol.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// One compile, as it goes to a worker. The views live as long as `owner`.
struct WorkerRequest {
  Digest key;                       // that WorkerPool::Raise names it by
  std::string header;               // EncodeCompileHeader's
  std::string_view payload;         // the source
  std::vector<std::string> stages;  // that the answer must have
  std::shared_ptr<const void> owner;
};

// Compiles once. Its private directory is empty at first, and emptied at the end. Not thread-safe.
class WorkerProcess {
 public:
  // Blocks until the worker is in its jail. UNAVAILABLE when the zygote is dead, or the worker died
  // or is not there in time; FAILED_PRECONDITION where it is not in the jail that it must be in.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(std::shared_ptr<Zygote> zygote,
                                                              const std::string& directory,
                                                              const WorkerLimits& limits);
  ~WorkerProcess();

  // Blocks for the compile. DEADLINE_EXCEEDED and CANCELLED as `wait` says, UNAVAILABLE when the
  // worker died, INTERNAL when it answered nonsense. REQUIRES: not called before.
  absl::StatusOr<WorkerReply> Run(const WorkerRequest& request, FrameWait wait);

  // Its compile leaves the cores to others, and no longer does. REQUIRES: MayStopYielding().
  void Yield() { kiln::Yield(pid_); }
  void StopYielding() { kiln::StopYielding(pid_); }
  void LeaveCores() { kiln::LeaveCores(pid_); }
  // See SessionWeight.
  void SetLowWeight(bool low) { zygote_->weight().SetLow(low); }

  // Kills the worker's process group and does not wait. Call End() later.
  void Kill();
  // Kills the worker's process group and waits until it is gone. Returns how the worker had ended
  // by itself ("SIGSEGV"), or "". Idempotent.
  std::string End();

  // Whether the worker lives, has sent nothing, and has its directory.
  bool IsReady() const;
  // The end of the worker's output.
  std::string LastWords(size_t bytes_max) const { return output_.Tail(bytes_max); }
  const Zygote& zygote() const { return *zygote_; }

 private:
  // Waits until it is in its jail, as far as it could get there.
  absl::Status AwaitJail();

  WorkerProcess(std::shared_ptr<Zygote> zygote, std::string directory, UniqueFd socket,
                OutputCapture output);

  const std::shared_ptr<Zygote> zygote_;
  const std::string directory_;
  UniqueFd socket_;
  OutputCapture output_;
  UniqueFd process_;  // a pidfd
  pid_t pid_ = -1;
};

}  // namespace kiln
