// Where a call's answer arrives in a test.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "daemon/chain/compilation_provider.h"

namespace kiln {

// Keeps the one answer of one call. A second answer aborts the test program: that a call is
// answered once is the contract of every provider. Thread-safe; copies of done() may outlive the
// probe.
class ResultProbe {
 public:
  CompileDone Done() {
    return [state = state_](absl::StatusOr<CompileResult> result) {
      std::lock_guard lock(state->mutex);
      if (state->result) std::abort();
      state->result = std::move(result);
      state->arrived.notify_all();
    };
  }

  bool HasResult() const {
    std::lock_guard lock(state_->mutex);
    return state_->result.has_value();
  }
  // Waits for the answer.
  absl::StatusOr<CompileResult> Result() const {
    std::unique_lock lock(state_->mutex);
    state_->arrived.wait(lock, [this] { return state_->result.has_value(); });
    return *state_->result;
  }
  absl::StatusCode Code() const { return Result().status().code(); }
  // kHit, kJoined or kCompiled. REQUIRES: the call has not failed.
  Outcome How() const { return Result().value().outcome; }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable arrived;
    std::optional<absl::StatusOr<CompileResult>> result;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace kiln
