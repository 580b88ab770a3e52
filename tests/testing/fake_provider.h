// A compiler that does what a test says, when it says so.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/chain/compilation_provider.h"
#include "storage/base/timer.h"

namespace kiln {

// A job with a made-up toolchain, whose key is decided by `source` alone.
CompileJobPtr MakeJob(std::string_view source, CachePolicy policy = CachePolicy::kUse,
                      std::vector<std::string> stages = {});

// Makes such a job with a header of so many bytes, which decides nothing here.
CompileJobPtr MakeJobWithHeader(std::string_view source, size_t header_bytes);

// What the fake compiler makes of a job: a "ptx" and a "cubin" stage decided by its source.
std::shared_ptr<const Artifact> MakeArtifactOf(const CompileJob& job);

// A result with that artifact, or with a failure of the source.
CompileResult CompiledFrom(const CompileJob& job);
CompileResult FailedWith(std::string_view message, bool deterministic = true);

// A leaf. Holds every compile until the test finishes it, or finishes at once where told so.
// Honours cancellation, and deadlines where given a timer. Thread-safe.
class FakeProvider final : public CompilationProvider {
 public:
  struct Call {
    CallContext context;
    CompileJobPtr job;
  };

  explicit FakeProvider(Timer* timer = nullptr) : timer_(timer) {}

  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override;
  void Raise(const Digest& key, const CallContext& waiter) override;
  std::string Describe() const override { return "fake"; }

  // From now on: answers before Compile returns.
  void FinishAtOnce();
  // From now on: holds again.
  void HoldAll();
  // From now on: the answer of a compile that is not given another one. CompiledFrom by default.
  void AnswerWith(std::function<absl::StatusOr<CompileResult>(const CompileJob&)> answer);
  // From now on: cancelling does nothing, as where the result is faster.
  void IgnoreCancellation();

  // Finishes the compile that was held first, on the caller's thread. False where none is held.
  bool FinishOne();
  bool FinishOne(absl::StatusOr<CompileResult> result);
  void FinishAll();

  size_t held() const;
  size_t started() const;
  size_t completed() const;  // with an answer of the compiler's
  size_t cancelled() const;
  // Every compile so far, in the order of starting.
  std::vector<Call> calls() const;
  std::vector<std::pair<Digest, Priority>> raises() const;

 private:
  struct Running;
  using RunningPtr = std::shared_ptr<Running>;

  RunningPtr TakeFirst();
  void Stop(const RunningPtr& running, absl::Status status);

  Timer* const timer_;
  mutable std::mutex mutex_;
  std::deque<RunningPtr> running_;
  std::vector<Call> calls_;
  std::vector<std::pair<Digest, Priority>> raises_;
  std::function<absl::StatusOr<CompileResult>(const CompileJob&)> answer_ = CompiledFrom;
  bool finishes_at_once_ = false;
  bool ignores_cancellation_ = false;
  size_t completed_ = 0;
  size_t cancelled_ = 0;
};

// Lets a test keep a reference to a provider that a chain owns.
class BorrowedProvider final : public CompilationProvider {
 public:
  explicit BorrowedProvider(CompilationProvider& provider) : provider_(provider) {}
  FoundResult Find(const CallContext& context, const CompileJobPtr& job) override {
    return provider_.Find(context, job);
  }
  void Compile(CallContext context, CompileJobPtr job, CompileDone done) override {
    provider_.Compile(std::move(context), std::move(job), std::move(done));
  }
  void Raise(const Digest& key, const CallContext& waiter) override {
    provider_.Raise(key, waiter);
  }
  std::string Describe() const override { return provider_.Describe(); }

 private:
  CompilationProvider& provider_;
};

}  // namespace kiln
