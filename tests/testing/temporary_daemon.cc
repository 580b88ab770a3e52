#include "tests/testing/temporary_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

namespace kiln {
namespace {

// Generous, since tests share the machine: only a daemon that hangs takes this long.
constexpr auto kStartTime = std::chrono::minutes(3);

// Copies each file under a new name and renames it, since tests that run beside this one do the
// same.
void CopyFiles(const std::filesystem::path& from, const std::filesystem::path& to) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // what cannot be copied is found out again by the daemon
  fs::create_directories(to, ignored);
  fs::permissions(to, fs::perms::owner_all, ignored);
  for (const auto& entry : fs::directory_iterator(from, ignored)) {
    const fs::path target = to / entry.path().filename();
    const fs::path partial = to / (".partial-" + std::to_string(getpid()));
    if (fs::exists(target, ignored) || !entry.is_regular_file()) continue;
    if (fs::copy_file(entry.path(), partial, ignored)) fs::rename(partial, target, ignored);
  }
}

}  // namespace

TemporaryDaemon::TemporaryDaemon(std::vector<std::string> arguments)
    : root_(directory_.File("root")), arguments_(std::move(arguments)) {
  std::filesystem::create_directories(root_ + "/state");
  // What the daemon learns of a toolchain by reading 600 MB and trying every architecture holds for
  // all tests of this build.
  CopyFiles(SharedDescriptions(), root_ + "/state/toolchains");
}

TemporaryDaemon::~TemporaryDaemon() {
  if (IsRunning()) Kill();
}

std::string TemporaryDaemon::SharedDescriptions() const { return KILN_TEST_DESCRIPTIONS; }

void TemporaryDaemon::Spawn() {
  std::vector<std::string> words = {KILND_PATH, "--root", root_};
  if (const char* toolchains = std::getenv("KILN_TEST_TOOLCHAINS")) {
    words.push_back("--set");
    words.push_back(std::string("toolchain.directories=[\"") + toolchains + "\"]");
  }
  // A test's own come last, since the last one wins.
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const std::string log = directory_.File("log");
  pid_ = fork();
  if (pid_ == 0) {
    const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(file, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  if (pid_ < 0) Die("cannot fork");
}

void TemporaryDaemon::Start() {
  Spawn();
  const auto give_up = std::chrono::steady_clock::now() + kStartTime;
  ConnectOptions options;
  options.needs_daemon = true;
  options.root = root_;
  while (!Client::Connect(options).ok()) {
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      Die("kilnd ended instead of serving");
    }
    if (std::chrono::steady_clock::now() > give_up) Die("kilnd does not answer");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CopyFiles(root_ + "/state/toolchains", SharedDescriptions());
}

int TemporaryDaemon::RunToExit() {
  Spawn();
  return Wait();
}

void TemporaryDaemon::Signal(int signal_number) { kill(pid_, signal_number); }

int TemporaryDaemon::Wait() {
  int status = 0;
  if (waitpid(std::exchange(pid_, -1), &status, 0) < 0) Die("there is no kilnd to wait for");
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void TemporaryDaemon::Kill() {
  Signal(SIGKILL);
  Wait();
}

int TemporaryDaemon::Stop() {
  Signal(SIGTERM);
  return Wait();
}

std::unique_ptr<Client> TemporaryDaemon::Connect(const ConnectOptions& options) const {
  ConnectOptions with_root = options;
  with_root.root = root_;
  auto client = Client::Connect(with_root);
  if (!client.ok()) {
    std::fprintf(stderr, "cannot connect: %s\n%s", client.status().ToString().c_str(),
                 Log().c_str());
    std::abort();
  }
  return *std::move(client);
}

std::string TemporaryDaemon::Log() const {
  const std::string path = directory_.File("log");
  return std::filesystem::exists(path) ? ReadFileOrDie(path) : "";
}

void TemporaryDaemon::Die(const std::string& what) {
  std::fprintf(stderr, "%s; its log:\n%s", what.c_str(), Log().c_str());
  if (IsRunning()) Kill();
  std::abort();
}

}  // namespace kiln
