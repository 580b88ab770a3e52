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

#include "daemon/process/work_directory.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

constexpr size_t kEntryWordsBytes = 2 * limits::kKiB;

// Random, so that a worker cannot answer a question before it is asked.
uint32_t RandomId() {
  uint32_t id = 0;
  [[maybe_unused]] const ssize_t got = ::getrandom(&id, sizeof id, 0);
  return id;
}

bool IsReadable(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

}  // namespace

WorkerProcess::WorkerProcess(std::shared_ptr<Zygote> zygote, std::string directory, UniqueFd socket,
                             OutputCapture output)
    : zygote_(std::move(zygote)),
      directory_(std::move(directory)),
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
      new WorkerProcess(std::move(zygote), directory, std::move(ours), std::move(output)));
  worker->pid_ = pid;
  // Nobody reaps the worker before End(), so the pid belongs to it.
  worker->process_ = OpenProcess(pid);
  if (!worker->process_) return ErrnoStatus(errno, "pidfd_open");
  KILN_RETURN_IF_ERROR(worker->AwaitJail());
  return worker;
}

absl::Status WorkerProcess::AwaitJail() {
  FrameWait wait;
  wait.deadline = std::chrono::steady_clock::now() + limits::kForkTime;
  wait.peer_fd = process_.get();
  const absl::StatusOr<Frame> frame = ReceiveFrame(socket_.get(), wait);
  absl::StatusOr<std::vector<std::string>> problems =
      frame.ok() ? DecodeReady(*frame) : frame.status();
  if (problems.ok()) return zygote_->Admit(*std::move(problems));
  return Unavailable("a worker did not get into its jail: {}; its last words: {}",
                     Message(problems.status()), LastWords(kEntryWordsBytes));
}

WorkerProcess::~WorkerProcess() {
  End();
  if (const absl::Status wiped = MakeEmptyDirectory(directory_); !wiped.ok()) {
    LogWarning("worker's directory not emptied", {{"error", Message(wiped)}});
  }
}

absl::StatusOr<WorkerReply> WorkerProcess::Run(const WorkerRequest& request, FrameWait wait) {
  wait.peer_fd = process_.get();
  const uint32_t id = RandomId();
  KILN_RETURN_IF_ERROR(
      SendFrame(socket_.get(), FrameType::kCompile, id, request.header, request.payload, wait));
  KILN_ASSIGN_OR_RETURN(const Frame frame, ReceiveFrame(socket_.get(), wait));
  if (frame.id != id) return Internal("an answer to a question that was not asked");
  return DecodeResult(frame, request.stages);
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
  // A process that is dying keeps its cause of death; only SIGKILL may have come from EndWorker.
  const bool by_us = !was_dead && WIFSIGNALED(*wait_status) && WTERMSIG(*wait_status) == SIGKILL;
  return by_us ? "" : DescribeWaitStatus(*wait_status);
}

bool WorkerProcess::IsReady() const {
  std::array<pollfd, 2> polled{{{socket_.get(), POLLIN, 0}, {process_.get(), POLLIN, 0}}};
  return pid_ > 0 && ::poll(polled.data(), polled.size(), 0) == 0 &&
         ::access(directory_.c_str(), F_OK) == 0;
}

}  // namespace kiln
