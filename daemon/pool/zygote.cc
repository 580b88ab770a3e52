#include "daemon/pool/zygote.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "daemon/process/json_reader.h"
#include "daemon/process/process_table.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

using Json = nlohmann::json;
using Steady = std::chrono::steady_clock;

constexpr size_t kControlBytesMax = 128 * limits::kKiB;
constexpr size_t kZygoteLastWordsBytes = 2 * limits::kKiB;
constexpr int kProtocol = 2;
constexpr size_t kNeedsMax = 512;
constexpr size_t kPathBytesMax = 4096;
constexpr auto kDeathTime = std::chrono::milliseconds(1000);

// When memory runs out, the kernel kills a worker first, then a zygote, and neither a job that runs
// on the machine nor the daemon. A worker inherits the zygote's score, so each score is set.
constexpr int kZygoteScore = 800;
constexpr int kWorkerScore = 1000;

void OfferToTheOutOfMemoryKiller(pid_t pid, int score) {
  const std::string path = fmt::format("/proc/{}/oom_score_adj", pid);
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string text = fmt::format("{}", score);
  if (!file || ::write(file.get(), text.data(), text.size()) < 0) {
    LogWarning("a compiler is not the first to go when memory ends",
               {{"path", path}, {"error", std::strerror(errno)}});
  }
}

// Waits until a process is dead, at most kDeathTime. That takes milliseconds.
void AwaitDeath(pid_t pid) {
  const UniqueFd process = OpenProcess(pid);
  pollfd polled{process.get(), POLLIN, 0};
  ::poll(&polled, 1, static_cast<int>(kDeathTime.count()));
}

// Passes over the children of this process. An orphan may fork before it dies, but not for ever.
constexpr int kOrphanPassesMax = 100;

// A zygote runs with the daemon's rights, so its files are checked before it starts.
absl::Status CheckSeal(const ZygoteCommand& command) {
  if (command.seal == nullptr) return absl::OkStatus();
  const absl::Status same = command.seal->Check();
  if (same.ok()) return same;
  const std::string_view what = absl::IsFailedPrecondition(same)
                                    ? "was changed"
                                    : "cannot be looked at, so it is not started";
  return Unavailable("{} {}: {}", command.name, what, Message(same));
}

}  // namespace

Zygote::Zygote(pid_t pid, UniqueFd control, OutputCapture output, const ZygoteCommand& command)
    : pid_(pid),
      control_(std::move(control)),
      process_(OpenProcess(pid)),
      output_(std::move(output)),
      jail_(command.jail),
      groups_(command.groups) {}

absl::StatusOr<std::shared_ptr<Zygote>> Zygote::Start(const ZygoteCommand& command,
                                                      const WakeEvent& stop) {
  KILN_RETURN_IF_ERROR(CheckSeal(command));
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    return ErrnoStatus(errno, "become a subreaper");
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    return ErrnoStatus(errno, "socketpair");
  }
  UniqueFd control(sockets[0]);
  UniqueFd theirs(sockets[1]);
  KILN_ASSIGN_OR_RETURN(OutputCapture output, OutputCapture::Create());
  SpawnCommand spawn = command.spawn;
  spawn.arguments.insert(spawn.arguments.end(), {"--parent", fmt::format("{}", ::getpid())});
  KILN_ASSIGN_OR_RETURN(const pid_t pid, Spawn(spawn, output.fd(), theirs.get()));
  theirs.Reset();  // otherwise the zygote's death would not close the connection
  std::shared_ptr<Zygote> zygote(new Zygote(pid, std::move(control), std::move(output), command));
  if (!zygote->process_) return ErrnoStatus(errno, "pidfd_open");
  OfferToTheOutOfMemoryKiller(pid, kZygoteScore);
  MakePreemptible(pid);
  KILN_RETURN_IF_ERROR(zygote->AwaitHello(command, stop));
  return zygote;
}

Zygote::~Zygote() {
  const MutexLock lock(mutex_);
  End();
}

absl::Status Zygote::AwaitHello(const ZygoteCommand& command, const WakeEvent& stop) {
  const auto hello = ReceiveMessage(Steady::now() + command.start_time, stop.fd());
  if (absl::IsCancelled(hello.status())) return hello.status();
  if (!hello.ok()) {
    return Unavailable("{} did not start: {}; its last words: {}", command.spawn.arguments[0],
                       Message(hello.status()), LastWords());
  }
  JsonReader reader(*hello, "a zygote's greeting");
  const std::string type = reader.String("type", 64);
  if (type == "failed") {
    return Unavailable("{} did not start: {}", command.spawn.arguments[0],
                       reader.String("message", kControlBytesMax));
  }
  const uint64_t protocol = reader.Count("protocol", 1000);
  const std::string version = reader.String("version", limits::kNameBytesMax);
  KILN_RETURN_IF_ERROR(reader.status());
  if (type != "hello" || protocol != kProtocol) {
    return Unavailable("{} speaks protocol {}, this daemon speaks {}", command.spawn.arguments[0],
                       protocol, kProtocol);
  }
  if (!command.version.empty() && version != command.version) {
    return Unavailable(
        "{} is version {} now and was {} when the daemon read it; 'kiln toolchain reload' has it "
        "read again",
        command.spawn.arguments[0], version, command.version);
  }
  needs_.programs = reader.Strings("programs", kNeedsMax, kPathBytesMax);
  needs_.libraries = reader.Strings("libraries", kNeedsMax, kPathBytesMax);
  if (reader.Has("starts_nothing")) needs_.starts_nothing = reader.Bool("starts_nothing");
  if (!reader.status().ok()) {
    return Unavailable("{} greeted wrongly: {}", command.spawn.arguments[0],
                       Message(reader.status()));
  }
  for (const auto& [target, error] : reader.Object("warm").items()) {
    if (error.is_string() && !error.get_ref<const std::string&>().empty()) {
      LogWarning("zygote could not warm up",
                 {{"target", target}, {"error", error.get_ref<const std::string&>()}});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Zygote::ForkRequest(const std::string& directory,
                                                WorkerLimits limits) const {
  // The kernel counts all that a user runs, with threads, and the daemon's user may run a job as
  // well.
  limits.processes = RunningThreads() + limits::kWorkerThreadsMax;
  Json request = {{"type", "fork"}, {"directory", directory}, {"jail", nullptr}};
  request["limits"] = EncodeLimits(limits);
  std::optional<JailDescription> jail;
  if (jail_ != nullptr) {
    KILN_ASSIGN_OR_RETURN(jail, jail_->Describe(needs_, directory));
  }
  if (jail) request["jail"] = EncodeJail(*jail);
  // A zygote would read the beginning of a longer request, and die of a syntax error.
  std::string text = request.dump();
  if (const size_t bytes = text.size(); bytes > kControlBytesMax) {
    return FailedPrecondition(
        "the order for a worker has {} bytes, of which a zygote reads {}: its jail names {} files "
        "and directories; install fewer toolchains that bring a ptxas, or under shorter names",
        bytes, kControlBytesMax, jail ? jail->paths.size() : 0);
  }
  return text;
}

absl::StatusOr<pid_t> Zygote::Fork(int job_socket, int output, const std::string& directory,
                                   const WorkerLimits& limits) {
  KILN_ASSIGN_OR_RETURN(const std::string request, ForkRequest(directory, limits));
  const std::array<int, 2> descriptors{job_socket, output};
  MutexLock lock(mutex_);
  KILN_ASSIGN_OR_RETURN(const Json reply, Ask(request, descriptors.data(), descriptors.size()));
  JsonReader reader(reply, "a zygote's answer");
  if (reader.String("type", 64) == "error") {
    return Unavailable("the zygote could not fork: {}", reader.String("message", kControlBytesMax));
  }
  const auto worker = static_cast<pid_t>(reader.Count("pid", 1 << 30));
  if (!reader.status().ok() || !IsOurs(worker)) {
    End();
    return Unavailable("the zygote named a worker that is not its own");
  }
  workers_.insert(worker);
  // The kernel takes some 10 ms to move a process to another group. Others fork and end meanwhile.
  lock.Unlock();
  if (groups_ != nullptr) {
    if (const absl::Status grouped = groups_->Add(worker); !grouped.ok()) {
      EndWorker(worker);
      return Unavailable("no control group for a worker: {}", Message(grouped));
    }
  }
  OfferToTheOutOfMemoryKiller(worker, kWorkerScore);
  return worker;
}

absl::Status Zygote::Admit(std::vector<std::string> jail_problems) const {
  const bool is_jailed = jail_ != nullptr && jail_->mode() != Jail::Mode::kOff;
  return is_jailed ? jail_->Admit(std::move(jail_problems)) : absl::OkStatus();
}

std::optional<int> Zygote::EndWorker(pid_t worker) {
  ::kill(-worker, SIGKILL);
  AwaitDeath(worker);  // others have workers forked meanwhile
  const MutexLock lock(mutex_);
  return EndWorkerLocked(worker);
}

std::optional<int> Zygote::EndWorkerLocked(pid_t worker) {
  ::kill(-worker, SIGKILL);
  if (groups_ != nullptr) groups_->Kill(worker);
  AwaitDeath(worker);
  workers_.erase(worker);
  if (alive_) {
    const auto reply = Ask(Json{{"type", "reap"}, {"pid", worker}}.dump(), nullptr, 0);
    if (reply.ok()) {
      const auto status = reply->find("status");
      if (status != reply->end() && status->is_number_integer()) return status->get<int>();
      return std::nullopt;
    }
  }
  // The zygote is dead and reaped, so its children are ours now, unless its end has just taken this
  // one along.
  int wait_status = -1;
  const bool reaped = ReapChild(worker, kDeathTime, &wait_status);
  EndOrphans();
  return reaped && wait_status >= 0 ? std::optional<int>(wait_status) : std::nullopt;
}

void Zygote::EndOrphans() {
  for (int pass = 0; pass < kOrphanPassesMax; ++pass) {
    bool found = false;
    for (const pid_t child : ChildProcesses().value_or(std::vector<pid_t>())) {
      // All that comes from a zygote is in its session.
      if (::getsid(child) != pid_ || workers_.contains(child)) continue;
      ::kill(child, SIGKILL);
      found = ReapChild(child, kDeathTime, nullptr) || found;
    }
    if (!found) return;
  }
}

bool Zygote::IsAlive() const {
  pollfd polled{process_.get(), POLLIN, 0};
  return alive_ && ::poll(&polled, 1, 0) == 0;
}

void Zygote::WaitForDeath(const WakeEvent& stop) {
  std::array<pollfd, 2> polled{{{process_.get(), POLLIN, 0}, {stop.fd(), POLLIN, 0}}};
  while (::poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) {
  }
  if (polled[0].revents == 0) return;
  const MutexLock lock(mutex_);
  End();
}

std::string Zygote::LastWords() const { return output_.Tail(kZygoteLastWordsBytes); }

bool Zygote::IsOurs(pid_t worker) const {
  return worker > 1 && worker != pid_ && ::getsid(worker) == pid_ && ::getpgid(worker) == worker;
}

absl::StatusOr<Json> Zygote::Ask(const std::string& request, const int* descriptors, size_t count) {
  if (!alive_) return Unavailable("the zygote is dead");
  absl::Status sent = SendMessage(request, descriptors, count);
  absl::StatusOr<Json> reply =
      sent.ok() ? ReceiveMessage(Steady::now() + limits::kForkTime, -1) : sent;
  if (reply.ok()) return reply;
  LogWarning("zygote ended",
             {{"pid", pid_}, {"error", Message(reply.status())}, {"last_words", LastWords()}});
  End();
  return Unavailable("the zygote is dead: {}", Message(reply.status()));
}

absl::Status Zygote::SendMessage(const std::string& text, const int* descriptors, size_t count) {
  iovec data{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = space.data();
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors, count * sizeof(int));
  }
  // One request at a time is under way, so a socket that does not take it belongs to a zygote that
  // does not read.
  if (::sendmsg(control_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    return ErrnoStatus(errno, "sendmsg");
  return absl::OkStatus();
}

absl::StatusOr<Json> Zygote::ReceiveMessage(Steady::time_point deadline, int wake_fd) {
  std::array<pollfd, 2> polled{{{control_.get(), POLLIN, 0}, {wake_fd, POLLIN, 0}}};
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now()).count();
    const int ready =
        ::poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return ErrnoStatus(errno, "poll");
    if (ready == 0) return DeadlineExceeded("no answer in time");
    if (polled[1].revents != 0) return Cancelled("stopped");
    break;
  }
  std::string text(kControlBytesMax, '\0');
  const ssize_t got = ::recv(control_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0) return ErrnoStatus(errno, "recv");
  if (got == 0) return Unavailable("it closed its socket");
  if (static_cast<size_t>(got) > text.size())
    return Internal("a message of {} bytes is over the limit", got);
  text.resize(static_cast<size_t>(got));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Internal("a message that is not a JSON object");
  return json;
}

void Zygote::End() {
  if (!alive_) return;
  alive_ = false;
  // Closing the socket lets a healthy one end its workers' groups first; death by force leaves that
  // to the kernel and to EndWorker.
  control_.Reset();
  if (!ReapChild(pid_, std::chrono::milliseconds(200), nullptr)) {
    ::kill(pid_, SIGKILL);
    ReapChild(pid_, kDeathTime, nullptr);
  }
  EndOrphans();
}

}  // namespace kiln
