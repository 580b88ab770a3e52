// See fake_compiler.h. Speaks daemon/worker/protocol.md as a zygote and as its workers.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "daemon/process/frame.h"
#include "daemon/process/process_table.h"
#include "daemon/sandbox/enter_jail.h"
#include "daemon/sandbox/work_mount.h"
#include "storage/base/limits.h"

extern char** environ;

namespace {

using Json = nlohmann::json;

constexpr int kControl = 3;
constexpr char kToolchainVersion[] = "3.6.0";

void WriteRaw(int fd, const std::string& bytes) {
  if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) std::_Exit(1);
}

Json Kernel() {
  return {{"name", "kernel"},
          {"shared_bytes", 128},
          {"num_warps", 4},
          {"num_ctas", 1},
          {"warp_size", 32},
          {"global_scratch_bytes", 0},
          {"global_scratch_align", 1},
          {"profile_scratch_bytes", 0},
          {"profile_scratch_align", 1},
          {"tensor_memory_columns", 0},
          {"cluster_dims", {1, 1, 1}},
          {"launch_pdl", false},
          {"launch_cooperative_grid", false},
          {"registers", 17},
          {"spill_bytes", nullptr},
          {"tensor_descriptors", Json::array()},
          {"hidden_pointers", 2},
          {"parameters", Json::array({Json::array({"x", "*fp32"})})},
          {"assembler", "fake 1.0"},
          {"toolchain_metadata", "{}"}};
}

Json Usage(uint64_t peak_bytes) {
  return {{"cpu_micros", 1000}, {"wall_micros", 1500}, {"peak_bytes", peak_bytes}};
}

void Send(int job, uint32_t id, const Json& header, const std::string& payload) {
  const absl::Status sent =
      kiln::SendFrame(job, kiln::FrameType::kResult, id, header.dump(), payload, {});
  if (!sent.ok()) std::_Exit(1);
}

void Answer(int job, uint32_t id, const std::string& text, uint64_t peak_bytes = 1 << 20) {
  const std::string binary = "binary of " + text;
  Send(job, id,
       {{"outcome", "compiled"},
        {"kernel", Kernel()},
        {"usage", Usage(peak_bytes)},
        {"stages",
         {{{"name", "parse"}, {"bytes", 0}, {"micros", 1}},
          {{"name", "ptx"}, {"bytes", text.size()}, {"micros", 10}},
          {{"name", "cubin"}, {"bytes", binary.size()}, {"micros", 20}}}}},
       text + binary);
}

void Fail(int job, uint32_t id, const char* outcome, bool deterministic) {
  Send(job, id,
       {{"outcome", outcome},
        {"usage", Usage(1 << 20)},
        {"failure",
         {{"code", deterministic ? "invalid_argument" : "internal"},
          {"stage", "parse"},
          {"message", "it does not parse"},
          {"line", 3},
          {"column", 7},
          {"output", "kernel.ttir:3:7: error: it does not parse"},
          {"deterministic", deterministic}}}},
       "");
}

void Lack(int job, uint32_t id, const std::string& code) {
  Send(job, id,
       {{"outcome", "failed"},
        {"usage", Usage(1 << 20)},
        {"failure",
         {{"code", code},
          {"stage", "parse"},
          {"message", "something is lacking"},
          {"line", 0},
          {"column", 0},
          {"output", ""},
          {"deterministic", false}}}},
       "");
}

[[noreturn]] void Segfault() {
  std::fputs("last words\n", stderr);
  ::signal(SIGSEGV, SIG_DFL);
  ::raise(SIGSEGV);
  std::_Exit(1);
}

[[noreturn]] void SleepForever() {
  while (true) ::pause();
}

bool MakeIfMissing(const std::string& path) {
  if (std::filesystem::exists(path)) return false;
  std::ofstream(path) << "here";
  return true;
}

std::string Where() {
  std::string text = std::filesystem::current_path().string() + "\n";
  for (const auto& entry : std::filesystem::directory_iterator("."))
    text += entry.path().string() + "\n";
  for (char** variable = environ; *variable != nullptr; ++variable)
    text += std::string(*variable) + "\n";
  std::ofstream("left-behind") << "here";
  std::filesystem::create_directories("left/behind");
  return text;
}

// As another process of its user's would not find them, let alone remove them.
void Bury() {
  for (const char* directory : {"unreadable", "unwritable"}) {
    std::filesystem::create_directories(std::string(directory) + "/inner");
    std::ofstream(std::string(directory) + "/file") << "here";
  }
  const int here = ::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool is_buried = ::chmod("unreadable", 0300) == 0 && ::chmod("unwritable", 0500) == 0;
  for (int level = 0; level < 1500; ++level) {
    is_buried = is_buried && ::mkdir("deeper", 0700) == 0 && ::chdir("deeper") == 0;
  }
  if (!is_buried || ::fchdir(here) != 0) std::_Exit(6);
  ::close(here);
}

enum class Held { kByName, kOpen };

// Makes files until there is no room for one more. How many had room.
int Hoard(Held held, size_t bytes) {
  const std::string content(bytes, 'x');
  for (int i = 0;; ++i) {
    const std::string name = std::to_string(i);
    const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return i;
    if (held == Held::kOpen) ::unlink(name.c_str());
    if (::write(file, content.data(), bytes) != static_cast<ssize_t>(bytes)) return i;
    if (held == Held::kByName) ::close(file);
  }
}

void ForkChildren() {
  if (::fork() == 0) SleepForever();
  if (::fork() == 0) {
    ::setsid();
    if (::fork() == 0) SleepForever();
    std::_Exit(0);
  }
}

// Processes of which half are left behind by their parents. They end by themselves, should nobody
// end them. _Fork, here and for workers, because ThreadSanitizer starts a thread of its own in each
// child of fork, and the kernel counts threads.
[[noreturn]] void Breed() {
  constexpr int kPairs = 100;
  constexpr unsigned kSecondsMax = 60;
  for (int i = 0; i < kPairs; ++i) {
    if (::_Fork() != 0) continue;
    const bool is_left_behind = ::_Fork() == 0;
    ::alarm(kSecondsMax);
    if (is_left_behind || i % 2 == 0) SleepForever();
    std::_Exit(0);
  }
  SleepForever();
}

// Until there is no more, which no compiler bears.
[[noreturn]] void EatMemory() {
  constexpr size_t kBite = size_t{16} << 20;
  while (void* bite = std::malloc(kBite)) std::memset(bite, 1, kBite);
  std::abort();
}

void AwaitRemovalOf(const std::string& path) {
  std::ofstream("begun") << "here";
  while (std::filesystem::exists(path)) ::usleep(1000);
}

// What a source that has taken this worker over has it answer.
std::string& TakenOverBy() {
  static std::string* const text = new std::string();
  return *text;
}

void Obey(int job, const kiln::Frame& frame) {
  if (!TakenOverBy().empty()) return Answer(job, frame.id, TakenOverBy());
  const size_t space = frame.payload.find(' ');
  const std::string what = frame.payload.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : frame.payload.substr(space + 1);
  if (what == "answer") return Answer(job, frame.id, argument);
  if (what == "await") {
    AwaitRemovalOf(argument.substr(0, argument.find('\n')));
    return Answer(job, frame.id, argument);
  }
  if (what == "await-and-crash") {
    AwaitRemovalOf(argument);
    Segfault();
  }
  if (what == "take-over") {
    TakenOverBy() = argument;
    return Answer(job, frame.id, argument);
  }
  const auto hoard = [&](Held held, size_t bytes) {
    Answer(job, frame.id, std::to_string(Hoard(held, bytes)));
  };
  if (what == "hoard") return hoard(Held::kByName, (size_t{4} << 20) - 4096);
  if (what == "hoard-nameless") return hoard(Held::kOpen, (size_t{4} << 20) - 4096);
  if (what == "litter") return hoard(Held::kByName, 0);
  if (what == "bury") {
    Bury();
    return Answer(job, frame.id, "");
  }
  if (what.starts_with("process")) return Answer(job, frame.id, std::to_string(::getpid()));
  if (what == "where") return Answer(job, frame.id, Where());
  if (what == "fail") return Fail(job, frame.id, "failed", true);
  if (what == "waver")
    return MakeIfMissing(argument) ? Fail(job, frame.id, "failed", false)
                                   : Answer(job, frame.id, "");
  if (what == "lack") return Lack(job, frame.id, argument);
  if (what == "taint") return Fail(job, frame.id, "crashed", true);
  if (what == "segfault") Segfault();
  if (what == "abort") {
    std::fprintf(stderr, "%s\n", argument.c_str());
    std::abort();
  }
  if (what == "crash-once") {
    if (MakeIfMissing(argument)) Segfault();
    return Answer(job, frame.id, "survived");
  }
  if (what == "spin") {
    while (::getppid() != 0) {
    }
  }
  if (what == "sleep") SleepForever();
  if (what == "fork") {
    ForkChildren();
    SleepForever();
  }
  if (what == "breed") Breed();
  if (what == "eat") EatMemory();
  if (what == "link") {
    // Where a compiler would have left its output. Nobody should come and look.
    std::error_code refused;
    std::filesystem::create_symlink("/etc/passwd", "kernel.cubin", refused);
    std::filesystem::create_directory_symlink("/etc", "kernel", refused);
    return Answer(job, frame.id, argument);
  }
  if (what == "junk") return WriteRaw(job, std::string(100, 'x'));
  if (what == "announce") {
    kiln::FrameStart start;
    start.type = kiln::FrameType::kResult;
    start.id = frame.id;
    start.payload_bytes = uint64_t{4} << 30;
    return WriteRaw(job, start.Encode());
  }
  if (what == "half") {
    kiln::FrameStart start;
    start.type = kiln::FrameType::kResult;
    start.id = frame.id;
    start.header_bytes = 2;
    start.payload_bytes = 100;
    WriteRaw(job, start.Encode() + "{}");
    std::_Exit(7);
  }
  if (what == "twice") {
    Answer(job, frame.id, "first");
    return Answer(job, frame.id, "second");
  }
  if (what == "stranger") return Answer(job, frame.id + 1, "");
  if (what == "nonsense") {
    const std::string header = argument;
    kiln::SendFrame(job, kiln::FrameType::kResult, frame.id, header, "", {}).IgnoreError();
    return;
  }
  if (what == "chatter") {
    const std::string line(1 << 20, 'y');
    while (::write(STDERR_FILENO, line.data(), line.size()) > 0) {
    }
    return Answer(job, frame.id, "");
  }
  if (what == "large")
    return Answer(job, frame.id, "", std::strtoull(argument.c_str(), nullptr, 10));
  std::_Exit(2);
}

// The problems, for the zygote.
std::vector<std::string> Confine(const Json& message) {
  const auto limits = kiln::DecodeLimits(message["limits"]);
  if (!limits.ok()) std::_Exit(1);
  const std::string directory = message["directory"];
  if (limits->disk_bytes != 0 && !kiln::MountWorkDirectory(directory, *limits, {}).ok())
    std::_Exit(1);
  if (::chdir(directory.c_str()) != 0) std::_Exit(1);
  std::vector<std::string> problems = kiln::SetLimits(*limits);
  if (message["jail"].is_null()) return problems;
  const auto jail = kiln::DecodeJail(message["jail"]);
  if (!jail.ok()) std::_Exit(1);
  for (std::string& problem : kiln::EnterJail(*jail)) problems.push_back(std::move(problem));
  return problems;
}

[[noreturn]] void RunWorker(const std::string& mode, int job, int output, const Json& message) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGTERM, SIG_DFL);
  ::close(kControl);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  if (mode == "dies-entering") {
    std::fputs("the door is narrow\n", stderr);
    std::_Exit(1);
  }
  const std::string go = std::string(message["directory"]) + "/go";
  while (mode == "waits-entering" && ::access(go.c_str(), F_OK) != 0) ::usleep(1000);
  std::vector<std::string> problems = Confine(message);
  if (mode == "escapes") problems = {"it did not like it"};
  const std::string header = Json{{"jail_problems", problems}}.dump();
  if (!kiln::SendFrame(job, kiln::FrameType::kReady, 0, header, {}, {}).ok()) std::_Exit(1);
  while (true) {
    const absl::StatusOr<kiln::Frame> frame = kiln::ReceiveFrame(job, {});
    if (!frame.ok()) std::_Exit(0);
    Obey(job, *frame);
  }
}

struct Message {
  Json json;
  std::array<int, 2> descriptors{-1, -1};
};

bool Receive(Message& message) {
  std::array<char, 131072> text{};
  iovec data{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> space{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = space.data();
  header.msg_controllen = space.size();
  const ssize_t got = ::recvmsg(kControl, &header, MSG_CMSG_CLOEXEC);
  if (got <= 0) return false;
  message.json = Json::parse(std::string(text.data(), static_cast<size_t>(got)), nullptr, false);
  if (const cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr) {
    std::memcpy(message.descriptors.data(), CMSG_DATA(control), 2 * sizeof(int));
  }
  return true;
}

void Reply(const Json& json) { WriteRaw(kControl, json.dump()); }

std::set<pid_t>& Workers() {
  static std::set<pid_t>* const workers = new std::set<pid_t>();
  return *workers;
}

void KillWorkers() {
  for (const pid_t worker : Workers()) ::kill(-worker, SIGKILL);
}

void EndOrphans() {
  for (int pass = 0; pass < 100; ++pass) {
    bool found = false;
    for (const pid_t child : kiln::ChildProcesses().value_or(std::vector<pid_t>())) {
      if (Workers().contains(child)) continue;
      ::kill(child, SIGKILL);
      found = ::waitpid(child, nullptr, 0) > 0 || found;
    }
    if (!found) return;
  }
}

void Fork(const std::string& mode, const Message& message) {
  const pid_t worker = ::_Fork();
  if (worker > 0 && mode == "dies-forking") std::_Exit(4);
  if (worker == 0) {
    RunWorker(mode, message.descriptors[0], message.descriptors[1], message.json);
  }
  ::setpgid(worker, worker);
  Workers().insert(worker);
  Reply({{"type", "forked"}, {"pid", worker}});
}

void Serve(const std::string& mode) {
  Message message;
  while (Receive(message)) {
    if (message.json["type"] == "reap") {
      int status = 0;
      const pid_t worker = message.json["pid"];
      if (mode == "slow-reaping") ::usleep(100'000);
      ::waitpid(worker, &status, 0);
      Workers().erase(worker);
      EndOrphans();
      Reply({{"type", "reaped"}, {"pid", worker}, {"status", status}});
      continue;
    }
    if (mode == "infertile") {
      Reply({{"type", "error"}, {"message", "no more processes"}});
    } else if (mode == "barren") {
      Reply({{"type", "forked"}, {"pid", ::getppid()}});
    } else {
      Fork(mode, message);
    }
    for (const int descriptor : message.descriptors) ::close(descriptor);
  }
  KillWorkers();
}

void OnTerminate(int) {
  KillWorkers();
  std::_Exit(0);
}

// As the interpreter of a toolchain that kilnd found.
int Describe() {
  const Json description = {
      {"protocol", 1},
      {"name", "triton"},
      {"version", kToolchainVersion},
      {"python", "3.11.2"},
      {"assembler", "fake 1.0"},
      {"hidden_pointers", 2},
      {"kinds", {"ttir"}},
      {"backends",
       {{{"backend", "cuda"},
         {"architectures", {"90"}},
         {"stages", {"ptx", "cubin"}},
         {"options", {{"num_warps", {{"type", "integer"}, {"default", 4}}}}}}}}};
  const std::string text = description.dump();
  return ::write(kControl, text.data(), text.size()) < 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::set<std::string> arguments(argv + 1, argv + argc);
  if (std::getenv("KILN_FAKE_NO_START") != nullptr) return 127;  // as the loader ends a program
  if (arguments.contains("--describe")) return Describe();
  const bool is_toolchain = arguments.contains("--zygote");
  const std::string mode = argc > 1 && !is_toolchain ? argv[1] : "plain";
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::fputs("zygote's words\n", stderr);
  Json hello = {{"type", "hello"},
                {"protocol", 2},
                {"version", is_toolchain ? kToolchainVersion : "1.0"},
                {"warm", {{"cuda:90", ""}}},
                {"programs", Json::array()},
                {"libraries", Json::array()}};
  if (mode == "silent") SleepForever();
  if (mode == "dies") return 3;
  if (mode == "garbage") {
    WriteRaw(kControl, "\x01\x02{{{");
    SleepForever();
  }
  if (mode == "failed") hello = {{"type", "failed"}, {"message", "no module named triton"}};
  if (mode == "protocol") hello["protocol"] = 3;
  if (mode == "version") hello["version"] = "9.9";
  Reply(hello);
  ::signal(SIGTERM, OnTerminate);
  Serve(mode);
  return 0;
}
