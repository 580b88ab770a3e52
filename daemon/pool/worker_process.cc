#include "daemon/pool/worker_process.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "daemon/process/process_table.h"
#include "daemon/process/work_directory.h"
#include "daemon/process/worker_holdings.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

// Not to be guessed by a worker that would like to answer the next question before it is asked.
uint32_t RandomId() {
  uint32_t id = 0;
  [[maybe_unused]] const ssize_t got = ::getrandom(&id, sizeof id, 0);
  return id;
}

bool HasPassed(SteadyTime deadline) { return std::chrono::steady_clock::now() >= deadline; }

bool IsReadable(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

}  // namespace

WorkerProcess::WorkerProcess(std::shared_ptr<Zygote> zygote, std::string directory, UniqueFd socket,
                             OutputCapture output, const WorkerLimits& limits)
    : zygote_(std::move(zygote)),
      directory_(std::move(directory)),
      limits_(limits),
      socket_(std::move(socket)),
      output_(std::move(output)) {}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(std::shared_ptr<Zygote> zygote,
                                                                    const std::string& directory,
                                                                    const WorkerLimits& limits) {
  KILN_RETURN_IF_ERROR(MakeEmptyDirectory(directory));
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    return ErrnoStatus(errno, "socketpair");
  }
  UniqueFd ours(sockets[0]);
  const UniqueFd theirs(sockets[1]);
  KILN_ASSIGN_OR_RETURN(OutputCapture output, OutputCapture::Create());
  KILN_ASSIGN_OR_RETURN(const pid_t pid,
                        zygote->Fork(theirs.get(), output.fd(), directory, limits));
  std::unique_ptr<WorkerProcess> worker(
      new WorkerProcess(std::move(zygote), directory, std::move(ours), std::move(output), limits));
  worker->pid_ = pid;
  // Nobody reaps it before End(), so the pid is its own.
  worker->process_ = OpenProcess(pid);
  if (!worker->process_) return ErrnoStatus(errno, "pidfd_open");
  return worker;
}

WorkerProcess::~WorkerProcess() {
  End();
  if (const absl::Status wiped = MakeEmptyDirectory(directory_); !wiped.ok()) {
    LogWarning("worker's directory not emptied", {{"error", Message(wiped)}});
  }
}

absl::StatusOr<WorkerReply> WorkerProcess::Run(const WorkerRequest& request, FrameWait wait) {
  wait.peer_fd = process_.get();
  wait.look_time = limits::kWorkerLookTime;
  wait.look = [this, deadline = wait.deadline.value_or(SteadyTime::max()), wake_fd = wait.wake_fd] {
    return Look([=] { return HasPassed(deadline) || IsReadable(wake_fd); });
  };
  next_look_ = std::chrono::steady_clock::now() + wait.look_time;
  const uint32_t id = RandomId();
  KILN_RETURN_IF_ERROR(
      SendFrame(socket_.get(), FrameType::kCompile, id, request.header, request.payload, wait));
  KILN_ASSIGN_OR_RETURN(const Frame frame, ReceiveFrame(socket_.get(), wait));
  if (frame.id != id) return Internal("an answer to a question that was not asked");
  return DecodeResult(frame, request.stages);
}

absl::Status WorkerProcess::Look(const std::function<bool()>& is_pointless) {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now < next_look_) return absl::OkStatus();
  next_look_ = now + limits::kWorkerLookTime;
  const std::vector<pid_t> processes =
      ProcessesOf(pid_, zygote_->pid(), limits::kWorkerProcessesMax + 1);
  KILN_RETURN_IF_ERROR(LookAtThreads(processes));
  if (processes.size() > limits::kWorkerProcessesMax) {
    return TooMuch(fmt::format("the compiler started more processes than the {} it may have",
                               limits::kWorkerProcessesMax));
  }
  return LookAtHoldings(processes, is_pointless);
}

absl::Status WorkerProcess::LookAtThreads(const std::vector<pid_t>& processes) {
  if (limits_.threads == 0 || CountThreads(processes, limits_.threads) < limits_.threads) {
    return absl::OkStatus();
  }
  return TooMuch(fmt::format(
      "the compiler started more processes and threads than the {} it may have", limits_.threads));
}

absl::Status WorkerProcess::LookAtHoldings(const std::vector<pid_t>& processes,
                                           const std::function<bool()>& is_pointless) {
  const HoldingsLook look{limits_.disk_entries, limits::kWorkerMappingsMax, is_pointless};
  auto all = MeasureHoldings(directory_, processes, zygote_->pid(), look);
  // Somebody tidied up beneath a running daemon: the compile finds that out by itself.
  if (absl::IsNotFound(all.status())) return absl::OkStatus();
  if (!all.ok()) {
    // The daemon lacks a descriptor, say. The next look may do better; what has a name counts now.
    if (!std::exchange(could_not_look_, true)) {
      LogWarning("a compile's files were not looked at", {{"error", Message(all.status())}});
    }
    all = MeasureHoldings(directory_, {}, zygote_->pid(), look);
    if (!all.ok()) return absl::OkStatus();
  }
  if (all->mappings >= limits::kWorkerMappingsMax) {
    return TooMuch(
        fmt::format("the compiler mapped more pieces of memory and files than the {} it may have",
                    limits::kWorkerMappingsMax));
  }
  if (all->disk_bytes <= limits_.disk_bytes && all->entries < limits_.disk_entries) {
    return absl::OkStatus();
  }
  return TooMuch(fmt::format(
      "the compiler wrote {} MiB in {} files; all of one compile's files together may have {} MiB, "
      "and be fewer than {}",
      all->disk_bytes / limits::kMiB, all->entries, limits_.disk_bytes / limits::kMiB,
      limits_.disk_entries));
}

absl::Status WorkerProcess::TooMuch(const std::string& what) {
  took_too_much_ = true;
  return absl::ResourceExhaustedError(what);
}

void WorkerProcess::Kill() {
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

std::string WorkerProcess::End() {
  if (pid_ < 0) return "";
  const bool was_dead = IsReadable(process_.get());
  const std::optional<int> wait_status = zygote_->EndWorker(pid_);
  pid_ = -1;
  if (!wait_status) return "";
  // A process that is about to die keeps the cause that it has; only SIGKILL may be our own doing.
  const bool by_us = !was_dead && WIFSIGNALED(*wait_status) && WTERMSIG(*wait_status) == SIGKILL;
  return by_us ? "" : DescribeWaitStatus(*wait_status);
}

bool WorkerProcess::IsReady() const {
  std::array<pollfd, 2> polled{{{socket_.get(), POLLIN, 0}, {process_.get(), POLLIN, 0}}};
  return pid_ > 0 && ::poll(polled.data(), polled.size(), 0) == 0 &&
         ::access(directory_.c_str(), F_OK) == 0;
}

}  // namespace kiln
