#include "daemon/pool/zygote_keeper.h"

#include <algorithm>
#include <utility>

#include "daemon/process/unshared.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

using Steady = std::chrono::steady_clock;

constexpr auto kRetryLast = std::chrono::milliseconds(30'000);
// One that dies sooner than this may not have worked. A few times that is somebody's stray kill.
constexpr auto kSettled = std::chrono::seconds(5);
constexpr int kEarlyDeathsMax = 3;

}  // namespace

ZygoteKeeper::ZygoteKeeper(ZygoteCommand command, std::function<void()> on_change)
    : command_(std::move(command)), on_change_(std::move(on_change)), thread_([this] { Loop(); }) {}

absl::StatusOr<std::shared_ptr<Zygote>> ZygoteKeeper::Get() {
  const MutexLock lock(mutex_);
  while (true) {
    if (stopping_) return Cancelled("the pool is shutting down");
    if (zygote_ != nullptr && zygote_->IsAlive()) return zygote_;
    if (!starting_ && Steady::now() < retry_at_) return Unshared(last_failure_);
    // Told once: callers that told each other at every wake-up would keep two cores busy.
    if (!std::exchange(wanted_, true)) changed_.NotifyAll();
    changed_.Wait(mutex_);
  }
}

void ZygoteKeeper::LetGo() {
  const MutexLock lock(mutex_);
  if (zygote_ == nullptr) return;
  early_deaths_ = failures_in_a_row_ = 0;
  zygote_.reset();
  stop_.Set();
}

void ZygoteKeeper::Refuse() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  abort_start_.Set();
  changed_.NotifyAll();
}

void ZygoteKeeper::Stop() {
  Refuse();
  stop_.Set();
  if (thread_.joinable()) thread_.join();
}

std::string ZygoteKeeper::State() const {
  const MutexLock lock(mutex_);
  if (starting_) return "starting";
  if (zygote_ != nullptr) return "ready";
  if (!last_failure_.ok()) return fmt::format("failed: {}", Message(last_failure_));
  return "not started";
}

void ZygoteKeeper::Loop() {
  while (AwaitWanted()) {
    const SteadyTime asked_at = Steady::now();
    const std::shared_ptr<Zygote> zygote = TakeUp(Start());
    if (zygote != nullptr) {
      const SteadyTime ready_at = Steady::now();
      LogInfo(
          "zygote ready",
          {{"toolchain", command_.name},
           {"pid", zygote->pid()},
           {"ms",
            std::chrono::duration_cast<std::chrono::milliseconds>(ready_at - asked_at).count()}});
      on_change_();
      zygote->WaitForDeath(stop_);
      NoteDeath(*zygote, ready_at);
    }
    on_change_();
    // The zygote ends here, on the thread that it belongs to, unless a worker still needs it to be
    // reaped.
  }
}

bool ZygoteKeeper::AwaitWanted() {
  const MutexLock lock(mutex_);
  while (!stopping_ && !wanted_) changed_.Wait(mutex_);
  starting_ = !stopping_;
  return starting_;
}

absl::StatusOr<std::shared_ptr<Zygote>> ZygoteKeeper::Start() {
  // Without them neither a start nor the wait for a death could be ended.
  KILN_RETURN_IF_ERROR(abort_start_.Open());
  KILN_RETURN_IF_ERROR(stop_.Open());
  ZygoteCommand command = command_;
  command.spawn.environment.insert(command.spawn.environment.end(), command_.preferences.begin(),
                                   command_.preferences.end());
  auto preferred = Zygote::Start(command, abort_start_);
  if (preferred.ok() || absl::IsCancelled(preferred.status()) || command_.preferences.empty()) {
    return preferred;
  }
  auto plain = Zygote::Start(command_, abort_start_);
  if (plain.ok()) {
    LogWarning("a toolchain does not start with all that would make it faster",
               {{"toolchain", command_.name},
                {"without", fmt::format("{}", fmt::join(command_.preferences, " "))},
                {"error", Message(preferred.status())}});
    command_.preferences.clear();
  }
  return plain;
}

std::shared_ptr<Zygote> ZygoteKeeper::TakeUp(
    const absl::StatusOr<std::shared_ptr<Zygote>>& started) {
  const MutexLock lock(mutex_);
  starting_ = false;
  // Requests that came meanwhile get this answer too: starting again for them would never end
  // where starting fails.
  wanted_ = false;
  if (started.ok()) {
    zygote_ = *started;
    last_failure_ = absl::OkStatus();
  } else if (!stopping_) {
    RecordFailure(started.status());
  }
  changed_.NotifyAll();
  return started.value_or(nullptr);
}

void ZygoteKeeper::NoteDeath(const Zygote& zygote, SteadyTime ready_at) {
  const MutexLock lock(mutex_);
  const bool was_let_go = zygote_ == nullptr;
  zygote_.reset();
  changed_.NotifyAll();
  if (stopping_) return;
  stop_.Clear();
  if (was_let_go) return;
  const std::string last_words = zygote.LastWords();
  LogWarning("zygote died",
             {{"toolchain", command_.name}, {"pid", zygote.pid()}, {"last_words", last_words}});
  if (Steady::now() - ready_at >= kSettled) {
    early_deaths_ = failures_in_a_row_ = 0;
  } else if (++early_deaths_ > kEarlyDeathsMax) {
    RecordFailure(Unavailable("the zygote keeps dying; its last words: {}", last_words));
  }
}

void ZygoteKeeper::RecordFailure(const absl::Status& failure) {
  const auto wait = std::min(command_.retry_first * (1 << std::min(failures_in_a_row_, 10)),
                             std::max(command_.retry_first, kRetryLast));
  ++failures_in_a_row_;
  last_failure_ = Unshared(failure);
  retry_at_ = Steady::now() + wait;
  LogError("no zygote", {{"error", Message(failure)}, {"retry_ms", wait.count()}});
}

}  // namespace kiln
