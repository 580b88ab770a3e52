#include "daemon/worker/native/zygote_server.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/process/json_reader.h"
#include "daemon/process/process_table.h"
#include "daemon/process/spawn.h"
#include "daemon/sandbox/jail_needs.h"
#include "daemon/worker/native/job_server.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr int kControlProtocol = 2;
constexpr size_t kControlMessageBytesMax = 128 * limits::kKiB;
constexpr size_t kDescriptorsMax = 2;  // of one message
constexpr auto kReapTime = std::chrono::seconds(1);
// An orphan may fork before it dies, but not for ever.
constexpr int kOrphanPasses = 100;

sigset_t TerminationSignal() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  return signals;
}

// The names of this process's threads but the caller's.
std::vector<std::string> OtherThreads() {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename() == std::to_string(::getpid())) continue;
    std::ifstream file(it->path() / "comm");
    std::getline(file, names.emplace_back());
  }
  return names;
}

}  // namespace

struct ZygoteServer::Request {
  Json message;
  std::vector<UniqueFd> descriptors;
};

void DieWith(pid_t parent, int signal_number) {
  ::prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0);
  // It may have died before the call.
  if (::getppid() != parent) ::_exit(0);
}

absl::Status CheckForkable() {
  const std::vector<std::string> others = OtherThreads();
  if (!others.empty()) {
    return FailedPrecondition(
        "opening the compiler left other threads running ({}); a zygote has one",
        fmt::join(others, ", "));
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/libcuda.so") != std::string::npos) {
      return FailedPrecondition("opening the compiler loaded a GPU driver; a zygote must not");
    }
  }
  return absl::OkStatus();
}

ZygoteServer::ZygoteServer(UniqueFd control, NativeCompiler& compiler)
    : control_(std::move(control)), compiler_(compiler) {
  const sigset_t signals = TerminationSignal();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  terminated_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC));
  // A source that can read what its process can is given what it may include and nothing else: the
  // compiler itself is loaded by now, and beside a library of the system lies much that is in no
  // key. NVRTC needs no more: in strace, 12.9's workers open after the fork what the sources
  // include, and nothing else; they start neither threads nor programs. Its built-ins it asks for
  // by name, and they are loaded by then (nvrtc_library.cc).
  JailNeeds needs = NeedsOfThisProcess(compiler_.Programs());
  if (compiler_.NamesAllItOpens()) needs.libraries.clear();
  for (std::string& path : compiler_.Reads()) needs.libraries.push_back(std::move(path));
  Send({{"type", "hello"},
        {"protocol", kControlProtocol},
        {"version", compiler_.Version()},
        {"warm", Json::object()},
        {"programs", needs.programs},
        {"libraries", needs.libraries},
        {"starts_nothing", compiler_.NamesAllItOpens()}});
}

absl::Status ZygoteServer::Serve() {
  absl::Status ended;
  while (true) {
    absl::StatusOr<std::optional<Request>> request = Receive();
    if (!request.ok()) ended = request.status();
    if (!request.ok() || !*request) break;
    absl::StatusOr<Json> reply = Answer(**request);
    Send(reply.ok() ? *reply : Json{{"type", "error"}, {"message", Message(reply.status())}});
  }
  for (const pid_t worker : workers_) ::kill(-worker, SIGKILL);
  return ended;
}

absl::StatusOr<std::optional<ZygoteServer::Request>> ZygoteServer::Receive() {
  std::array<pollfd, 2> polled{{{control_.get(), POLLIN, 0}, {terminated_.get(), POLLIN, 0}}};
  while (::poll(polled.data(), polled.size(), -1) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "poll");
  }
  if (polled[1].revents != 0) return std::nullopt;
  std::string text(kControlMessageBytesMax, '\0');
  iovec data{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> space{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = space.data();
  header.msg_controllen = space.size();
  const ssize_t got = ::recvmsg(control_.get(), &header, MSG_CMSG_CLOEXEC);
  if (got < 0) return ErrnoStatus(errno, "recvmsg");
  if (got == 0) return std::nullopt;
  Request request;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + at, sizeof descriptor);
      request.descriptors.emplace_back(descriptor);
    }
  }
  request.message =
      Json::parse(text.substr(0, static_cast<size_t>(got)), nullptr, /*allow_exceptions=*/false);
  return request;
}

absl::StatusOr<Json> ZygoteServer::Answer(Request& request) {
  JsonReader reader(request.message, "the daemon's request");
  const std::string type = reader.String("type", limits::kNameBytesMax);
  if (type == "fork") return Fork(request);
  const auto worker = static_cast<pid_t>(reader.Count("pid", 1 << 30));
  KILN_RETURN_IF_ERROR(reader.status());
  if (type != "reap" || !workers_.contains(worker)) {
    return InvalidArgument("'{}' of process {} is not a request", type, worker);
  }
  return Reap(worker);
}

absl::StatusOr<Json> ZygoteServer::Fork(Request& request) {
  if (request.descriptors.size() != kDescriptorsMax) {
    return InvalidArgument("a fork takes two descriptors, got {}", request.descriptors.size());
  }
  KILN_ASSIGN_OR_RETURN(const Surroundings surroundings, Surroundings::Parse(request.message));
  const pid_t zygote = ::getpid();
  const pid_t worker = ::fork();
  if (worker < 0) return ErrnoStatus(errno, "fork");
  if (worker == 0) {
    ::setpgid(0, 0);
    DieWith(zygote, SIGKILL);
    const sigset_t signals = TerminationSignal();
    ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    terminated_.Reset();
    control_.Reset();
    heap_.Enter();
    RunWorker(compiler_, surroundings, std::move(request.descriptors[0]),
              std::move(request.descriptors[1]));
  }
  // In both processes, so that the group exists before anyone hears of the pid.
  ::setpgid(worker, worker);
  workers_.insert(worker);
  return Json{{"type", "forked"}, {"pid", worker}};
}

// The daemon has killed it; null where it refuses to die.
Json ZygoteServer::Reap(pid_t worker) {
  int status = 0;
  const bool reaped = ReapChild(worker, kReapTime, &status);
  if (reaped) {
    workers_.erase(worker);
    EndOrphans();
  }
  return {{"type", "reaped"}, {"pid", worker}, {"status", reaped ? Json(status) : Json()}};
}

// Kills and reaps every child that is not a worker: what dead workers left behind.
void ZygoteServer::EndOrphans() {
  for (int pass = 0; pass < kOrphanPasses; ++pass) {
    bool found = false;
    for (const pid_t child : ChildProcesses().value_or(std::vector<pid_t>())) {
      if (workers_.contains(child)) continue;
      ::kill(child, SIGKILL);
      found = ::waitpid(child, nullptr, 0) == child || found;
    }
    if (!found) return;
  }
}

void ZygoteServer::Send(const Json& message) {
  const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  // Where the daemon is gone, the next Receive says so.
  (void)!::send(control_.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace kiln
