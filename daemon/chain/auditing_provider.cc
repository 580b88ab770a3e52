#include "daemon/chain/auditing_provider.h"

#include <unistd.h>

#include <cassert>
#include <optional>
#include <utility>

#include "daemon/kernel/request_shape.h"
#include "daemon/policy/same_code.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {

struct AuditingProvider::Audit {
  CompileJobPtr job;
  size_t bytes = 0;           // of the request and of what is stored
  Blob stored;                // the final binary
  std::vector<Blob> fresh;    // all of them differ from it, and not for debuggers alone
  Cancellation cancellation;  // of the compile under way
};

namespace {

// Fresh compiles that must agree with each other before a stored binary is called wrong.
constexpr size_t kWitnesses = 3;

enum class Verdict { kSame, kDiffers, kNondeterministic, kUndecided };

bool RunAlike(const Blob& one, const Blob& other) {
  return one.digest() == other.digest() || HaveSameCode(one.bytes(), other.bytes());
}

Verdict Compare(const Blob& stored, const std::vector<Blob>& earlier, const Blob& fresh) {
  const bool is_same = earlier.empty() && fresh.digest() == stored.digest();
  if (is_same) return Verdict::kSame;
  if (RunAlike(stored, fresh)) return Verdict::kNondeterministic;
  if (!earlier.empty() && !RunAlike(earlier.front(), fresh)) return Verdict::kNondeterministic;
  return earlier.size() + 1 < kWitnesses ? Verdict::kUndecided : Verdict::kDiffers;
}

}  // namespace

AuditingProvider::AuditingProvider(std::unique_ptr<CompilationProvider> next, uint64_t one_in,
                                   Parts parts)
    : ForwardingProvider("auditing", std::move(next)),
      one_in_(one_in),
      parts_(std::move(parts)),
      seen_(limits::kAuditedKeysMax, limits::kAuditedKeysMax) {
  assert(one_in > 0);
}

AuditingProvider::~AuditingProvider() = default;

FoundResult AuditingProvider::Find(const CallContext& context, const CompileJobPtr& job) {
  auto found = next().Find(context, job);
  if (found && found->ok()) Consider(job, **found);
  return found;
}

void AuditingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  GiveWay();  // what is stored was found
  next().Compile(std::move(context), std::move(job), std::move(done));
}

void AuditingProvider::Consider(const CompileJobPtr& job, const CompileResult& result) {
  const Artifact* artifact = result.artifact();
  if (artifact == nullptr) return;
  if (hits_.fetch_add(1, std::memory_order_relaxed) % one_in_ != 0) return;
  {
    const MutexLock lock(mutex_);
    if (seen_.Find(job->key) != nullptr) return;
    const Blob& stored = artifact->stages.back().blob;
    const size_t bytes = RequestBytes(job->request) + stored.size_bytes();
    if (waiting_.size() >= limits::kAuditsWaitingMax ||
        kept_bytes_ + bytes > limits::kAuditBytesMax) {
      parts_.counters.given_up.Add();
      return;
    }
    kept_bytes_ += bytes;
    seen_.Insert(job->key, true, 1);
    auto audit = std::make_shared<Audit>();
    audit->job = job;
    audit->bytes = bytes;
    audit->stored = stored;
    waiting_.push_back(std::move(audit));
  }
  LookLater();
}

void AuditingProvider::LookLater() {
  std::unique_ptr<Alarm> rung;  // goes after the mutex is released
  const MutexLock lock(mutex_);
  if (waiting_.empty() || running_ != nullptr || std::exchange(will_look_, true)) return;
  rung = std::exchange(alarm_, parts_.timer.At(parts_.clock.Now() + limits::kAuditLook, [this] {
    {
      const MutexLock callback_lock(mutex_);
      will_look_ = false;
    }
    StartIfIdle();
  }));
}

void AuditingProvider::StartIfIdle() {
  if (!parts_.is_idle()) return LookLater();
  AuditPtr audit;
  {
    const MutexLock lock(mutex_);
    if (waiting_.empty() || running_ != nullptr) return;
    audit = waiting_.front();
    waiting_.pop_front();
    audit->cancellation = Cancellation();
    running_ = audit;
  }
  Run(audit);
}

void AuditingProvider::Run(const AuditPtr& audit) {
  CallContext context;
  context.principal = {::geteuid(), /*is_admin=*/true};
  context.priority = Priority::kBackground;
  context.job = "audit";
  context.cancellation = audit->cancellation;
  parts_.compiler.Compile(
      std::move(context), audit->job,
      [this, audit](const absl::StatusOr<CompileResult>& result) { Judge(audit, result); });
}

void AuditingProvider::Judge(const AuditPtr& audit, const absl::StatusOr<CompileResult>& result) {
  const bool gave_way = absl::IsCancelled(result.status());
  // The pool shuts down, or its toolchain does not start and has said so.
  const bool had_no_worker = absl::IsUnavailable(result.status());
  const Artifact* artifact = result.ok() ? result->artifact() : nullptr;
  Verdict verdict = Verdict::kUndecided;
  {
    const MutexLock lock(mutex_);
    running_ = nullptr;
    if (artifact != nullptr) {
      const Blob& fresh = artifact->stages.back().blob;
      verdict = Compare(audit->stored, audit->fresh, fresh);
      if (verdict == Verdict::kSame) parts_.counters.same.Add();
      if (verdict == Verdict::kNondeterministic) parts_.counters.nondeterministic.Add();
      if (verdict == Verdict::kDiffers) {
        parts_.counters.differed.Add();
        seen_.Erase(audit->job->key);  // what takes its place has not been audited
      }
      audit->fresh.push_back(fresh);
    }
    const bool is_given_up = artifact == nullptr && !gave_way;
    if (is_given_up) parts_.counters.given_up.Add();
    if (!is_given_up && verdict == Verdict::kUndecided) {
      waiting_.push_front(audit);
    } else {
      kept_bytes_ -= audit->bytes;
    }
  }
  if (verdict == Verdict::kDiffers) Evict(*audit);
  if (verdict == Verdict::kNondeterministic) {
    LogInfo("audit: the compiler is not deterministic", {{"key", audit->job->key.Hex()}});
  }
  if (artifact == nullptr && !gave_way && !had_no_worker) {
    LogWarning("audit: a stored kernel does not compile",
               {{"key", audit->job->key.Hex()},
                {"why", result.ok() ? result->failure()->message : Message(result.status())}});
  }
  LookLater();
}

void AuditingProvider::Evict(const Audit& audit) {
  const Digest key = audit.job->key;
  LogError("AUDIT: A STORED BINARY IS NOT WHAT ITS SOURCE COMPILES TO; evicted",
           {{"key", key.Hex()},
            {"stored", audit.stored.digest().Hex()},
            {"compiled", audit.fresh.front().digest().Hex()}});
  parts_.executor.Run([this, key] {
    const absl::Status removed = parts_.index.Remove({}, key);
    if (removed.ok() || absl::IsNotFound(removed)) return;
    LogError("audit: not evicted", {{"key", key.Hex()}, {"why", Message(removed)}});
  });
}

void AuditingProvider::GiveWay() {
  std::optional<Cancellation> under_way;
  {
    const MutexLock lock(mutex_);
    if (running_ != nullptr) under_way = running_->cancellation;
  }
  if (under_way) under_way->Cancel();
}

size_t AuditingProvider::waiting() const {
  const MutexLock lock(mutex_);
  return waiting_.size() + (running_ != nullptr ? 1 : 0);
}

}  // namespace kiln
