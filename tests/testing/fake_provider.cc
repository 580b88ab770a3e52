#include "tests/testing/fake_provider.h"

#include <algorithm>
#include <utility>

namespace kiln {

struct FakeProvider::Running {
  CompileJobPtr job;
  CompileDone done;
  Cancellation::Registration on_cancel;
  std::unique_ptr<Alarm> on_deadline;
  bool is_over = false;
};

CompileJobPtr MakeJob(std::string_view source, CachePolicy policy,
                      std::vector<std::string> stages) {
  static const auto* const toolchain = new std::shared_ptr<const Toolchain>([] {
    auto made = std::make_shared<Toolchain>();
    made->name = "fake";
    made->version = "1.0";
    made->fingerprint = Digest::Of("the fake toolchain");
    return made;
  }());
  auto job = std::make_shared<CompileJob>();
  job->request.source.text = source;
  job->request.target = {"cuda", "90", 32};
  job->request.cache_policy = policy;
  job->request.stages = std::move(stages);
  job->toolchain = *toolchain;
  job->key = Digest::Of(source);
  return job;
}

CompileJobPtr MakeJobWithHeader(std::string_view source, size_t header_bytes) {
  CompileJob job = *MakeJob(source);
  job.request.headers.push_back({"header.h", std::string(header_bytes, ' ')});
  return std::make_shared<const CompileJob>(std::move(job));
}

std::shared_ptr<const Artifact> MakeArtifactOf(const CompileJob& job) {
  auto artifact = std::make_shared<Artifact>();
  artifact->key = job.key;
  artifact->metadata.name = "kernel";
  artifact->metadata.target = job.request.target;
  artifact->metadata.toolchain_metadata = "{}";
  artifact->timings = {{"ptx", 10}, {"cubin", 20}};
  artifact->provenance.toolchain = job.toolchain->Name();
  artifact->provenance.compile_micros = 30;
  artifact->stages.push_back({"ptx", Blob::FromBytes("ptx of " + job.request.source.text)});
  artifact->stages.push_back({"cubin", Blob::FromBytes("cubin of " + job.request.source.text)});
  return artifact;
}

CompileResult CompiledFrom(const CompileJob& job) {
  return {Outcome::kCompiled, std::nullopt, MakeArtifactOf(job)};
}

CompileResult FailedWith(std::string_view message, bool deterministic) {
  auto failure = std::make_shared<CompileFailure>();
  failure->stage = "ttgir";
  failure->message = message;
  failure->deterministic = deterministic;
  return {Outcome::kCompiled, std::nullopt, std::move(failure)};
}

void FakeProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  auto running = std::make_shared<Running>();
  running->job = job;
  running->done = std::move(done);
  const auto stop = [this, weak = std::weak_ptr(running)](absl::Status status) {
    if (const RunningPtr stopped = weak.lock()) Stop(stopped, std::move(status));
  };
  bool finishes_at_once;
  bool ignores_cancellation;
  {
    std::lock_guard lock(mutex_);
    calls_.push_back({context, std::move(job)});
    finishes_at_once = finishes_at_once_;
    ignores_cancellation = ignores_cancellation_;
  }
  if (!ignores_cancellation) {
    running->on_cancel =
        context.cancellation.OnCancel([stop] { stop(Cancelled("the fake was cancelled")); });
  }
  if (context.deadline && timer_ != nullptr) {
    running->on_deadline = timer_->At(
        *context.deadline, [stop] { stop(DeadlineExceeded("the fake was out of time")); });
  }
  {
    std::lock_guard lock(mutex_);
    if (running->is_over) return;
    running_.push_back(running);
  }
  if (finishes_at_once) FinishOne();
}

void FakeProvider::Raise(const Digest& key, const CallContext& waiter) {
  std::lock_guard lock(mutex_);
  raises_.emplace_back(key, waiter.priority);
}

void FakeProvider::FinishAtOnce() {
  std::lock_guard lock(mutex_);
  finishes_at_once_ = true;
}

void FakeProvider::HoldAll() {
  std::lock_guard lock(mutex_);
  finishes_at_once_ = false;
}

void FakeProvider::AnswerWith(
    std::function<absl::StatusOr<CompileResult>(const CompileJob&)> answer) {
  std::lock_guard lock(mutex_);
  answer_ = std::move(answer);
}

void FakeProvider::IgnoreCancellation() {
  std::lock_guard lock(mutex_);
  ignores_cancellation_ = true;
}

FakeProvider::RunningPtr FakeProvider::TakeFirst() {
  std::lock_guard lock(mutex_);
  if (running_.empty()) return nullptr;
  RunningPtr first = running_.front();
  running_.pop_front();
  first->is_over = true;
  ++completed_;
  return first;
}

bool FakeProvider::FinishOne() {
  const RunningPtr running = TakeFirst();
  if (running == nullptr) return false;
  std::function<absl::StatusOr<CompileResult>(const CompileJob&)> answer;
  {
    std::lock_guard lock(mutex_);
    answer = answer_;
  }
  running->on_cancel.reset();
  running->on_deadline.reset();
  running->done(answer(*running->job));
  return true;
}

bool FakeProvider::FinishOne(absl::StatusOr<CompileResult> result) {
  const RunningPtr running = TakeFirst();
  if (running == nullptr) return false;
  running->on_cancel.reset();
  running->on_deadline.reset();
  running->done(std::move(result));
  return true;
}

void FakeProvider::FinishAll() {
  while (FinishOne()) {
  }
}

void FakeProvider::Stop(const RunningPtr& running, absl::Status status) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(running->is_over, true)) return;
    ++cancelled_;
    running_.erase(std::remove(running_.begin(), running_.end(), running), running_.end());
  }
  running->done(std::move(status));
}

size_t FakeProvider::held() const {
  std::lock_guard lock(mutex_);
  return running_.size();
}

size_t FakeProvider::started() const {
  std::lock_guard lock(mutex_);
  return calls_.size();
}

size_t FakeProvider::completed() const {
  std::lock_guard lock(mutex_);
  return completed_;
}

size_t FakeProvider::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

std::vector<FakeProvider::Call> FakeProvider::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

std::vector<std::pair<Digest, Priority>> FakeProvider::raises() const {
  std::lock_guard lock(mutex_);
  return raises_;
}

}  // namespace kiln
