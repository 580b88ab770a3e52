// kilnd: start-up, signals, and the order of both.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/assemble.h"
#include "daemon/config/check.h"
#include "daemon/config/config.h"
#include "daemon/config/load.h"
#include "daemon/config/paths.h"
#include "daemon/observe/service_notifier.h"
#include "daemon/rpc/sockets/open_sockets.h"
#include "daemon/state_lock.h"
#include "daemon/toolchain/toolchain_selector.h"
#include "storage/base/clock.h"
#include "storage/base/filesystem.h"
#include "storage/base/log.h"
#include "storage/base/nearest_word.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// As docs/reference.md has them.
enum ExitCode { kOk = 0, kFailed = 1, kBadUsage = 2, kAlreadyRunning = 3 };

struct Flags {
  std::string root;
  std::string config_file;
  std::vector<std::string> settings;
  bool check_config = false;
  bool print_config = false;
};

int Fail(int code, const absl::Status& status) {
  std::fprintf(stderr, "kilnd: %s\n", std::string(Message(status)).c_str());
  return code;
}

// A user who may write the configuration decides what this daemon does. One who may rename entries
// of its directory could replace the hot directory, whose files are code that jobs run.
absl::Status CheckUnshared(const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0) return ErrnoStatus(errno, "stat " + path);
  if (found.st_uid != geteuid() && found.st_uid != 0) {
    return FailedPrecondition(
        "{} belongs to uid {}, this kilnd runs as uid {}; change its owner (chown), or choose "
        "another one",
        path, found.st_uid, geteuid());
  }
  const bool is_sticky = S_ISDIR(found.st_mode) && (found.st_mode & S_ISVTX) != 0;
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !is_sticky) {
    return FailedPrecondition("others may write to {}; chmod go-w it or choose another one", path);
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedConfig> Load(Flags& flags, const Environment& environment) {
  ConfigSources sources;
  std::error_code error;
  sources.root_origin = "--root";
  if (flags.root.empty()) {
    sources.root_origin = "KILN_ROOT";
    const auto given = environment.find("KILN_ROOT");
    if (given != environment.end()) flags.root = given->second;
  }
  // A person's `--root ./try` is as good as any, but the configuration has absolute paths only.
  if (!flags.root.empty()) {
    flags.root = std::filesystem::absolute(flags.root, error).lexically_normal();
    if (error) return ErrnoStatus(error.value(), sources.root_origin + " " + flags.root);
    if (flags.root.size() > 1 && flags.root.back() == '/') flags.root.pop_back();
  }
  sources.file_must_exist = !flags.config_file.empty();
  sources.file = sources.file_must_exist ? flags.config_file
                                         : DefaultConfigFile(flags.root, getuid(), environment);
  // /dev/null is an empty one.
  if (std::filesystem::exists(sources.file, error) &&
      !std::filesystem::is_character_file(sources.file, error)) {
    KILN_RETURN_IF_ERROR(Annotate(CheckUnshared(sources.file), "the configuration file"));
    const std::filesystem::path file = std::filesystem::canonical(sources.file, error);
    KILN_RETURN_IF_ERROR(
        Annotate(CheckUnshared(file.parent_path()), "the configuration file's directory"));
  }
  sources.environment = environment;
  sources.settings = flags.settings;
  sources.root = flags.root;
  return LoadConfig(sources);
}

// More than a start asks for: a daemon whose toolchains are not mounted yet serves what it has
// stored.
absl::Status CheckConfig(const LoadedConfig& loaded, const Environment& environment) {
  KILN_RETURN_IF_ERROR(CheckThingsNamed(loaded));
  const auto selector = ToolchainSelector::Parse(loaded.config.toolchain.default_selector);
  KILN_RETURN_IF_ERROR(loaded.Blame("toolchain.default", selector.status()));
  KILN_ASSIGN_OR_RETURN(const Paths paths,
                        ResolvePaths(loaded.config.paths, getuid(), environment));
  return CheckPaths(paths);
}

int PrintConfigInForce(const LoadedConfig& loaded) {
  errno = 0;
  if (std::cout << PrintConfig(loaded) << std::flush) return kOk;
  return Fail(kFailed, ErrnoStatus(errno, "cannot write the configuration to standard output"));
}

// Where installation and build tree alike have the workers' programs, relative to this one.
std::string WorkerProgram(std::string_view name) {
  std::error_code error;  // leaves an empty path behind, which Prepare then reports
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "lib/kiln" / name;
}

absl::Status MakeDirectories(const std::string& path, mode_t mode) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(parent, error);
  if (error) return ErrnoStatus(error.value(), "cannot make " + parent.string());
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "cannot make " + path);
  }
  // A file of that name, or a link to nowhere, would fail later and say less.
  if (!std::filesystem::is_directory(path, error)) {
    return FailedPrecondition("{} is not a directory; move it away or choose another one", path);
  }
  KILN_RETURN_IF_ERROR(CheckUnshared(parent));
  return CheckUnshared(path);
}

// What the operating system refuses, whoever runs the daemon can change.
absl::Status WithAdvice(const absl::Status& status, const std::string& directory,
                        std::string_view setting) {
  if (absl::IsPermissionDenied(status)) {
    return PermissionDenied(
        "{}; uid {} must own and be able to write {}: see its owner (chown), its mode and whether "
        "it is mounted read-only, or choose another directory with --set {}=DIR or --root DIR",
        Message(status), geteuid(), directory, setting);
  }
  if (absl::IsResourceExhausted(status)) {
    return ResourceExhausted(
        "{}; free some space there, or choose another directory with --set {}=DIR or --root DIR",
        Message(status), setting);
  }
  return status;
}

absl::Status PrepareState(const std::string& directory) {
  KILN_RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  // One that was there already may be open to others; what is stored is nobody else's to look at.
  if (chmod(directory.c_str(), 0700) != 0) {
    return ErrnoStatus(errno, "cannot make " + directory + " private");
  }
  return absl::OkStatus();
}

absl::Status PrepareDirectories(const Paths& paths) {
  KILN_RETURN_IF_ERROR(WithAdvice(PrepareState(paths.state), paths.state, "paths.state"));
  // Clients pass through it to the sockets, whose own modes say who may connect.
  return WithAdvice(MakeDirectories(paths.run, 0755), paths.run, "paths.run");
}

sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);  // the terminal of a person's daemon was closed
  return signals;
}

// RocksDB brings jemalloc along, which gives back what a burst has freed when it is asked to.
void GiveMemoryBack() {
  using Control = int (*)(const char*, void*, size_t*, void*, size_t);
  static const auto control = reinterpret_cast<Control>(dlsym(RTLD_DEFAULT, "mallctl"));
  if (control != nullptr) control("arena.4096.decay", nullptr, nullptr, nullptr, 0);  // of all
}

// Waits for a signal and keeps systemd's watchdog content meanwhile.
void AwaitSignal(const Daemon& daemon, ServiceNotifier& notifier) {
  const sigset_t signals = HandledSignals();
  const auto interval = WatchdogInterval();
  while (true) {
    timespec timeout{};
    timeout.tv_sec = 10;
    if (interval) {
      timeout.tv_sec = interval->count() / 1'000'000;
      timeout.tv_nsec = interval->count() % 1'000'000 * 1000;
    }
    if (sigtimedwait(&signals, nullptr, &timeout) > 0) return;
    notifier.KeepAlive();
    notifier.Status(daemon.StatusLine());
    GiveMemoryBack();
  }
}

// A second signal, while the daemon drains: the operator is done waiting.
void QuitOnNextSignal() {
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGHUP, SIG_DFL);
  const sigset_t signals = HandledSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

// Each connection takes a descriptor; the usual soft limit of 1024 is for programs that use
// select().
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) LogWarning("cannot raise the limit on descriptors");
}

// Tells every user which process is about to serve, so that none of them takes it for absent. Only
// for people: where it cannot be written, `kiln` says "no daemon" while this one starts.
void PublishPid(const Paths& paths) {
  (void)OsFilesystem().Remove(paths.RunPid());
  (void)OsFilesystem().WriteNew(paths.RunPid(), std::to_string(getpid()), 0644);
}

// One daemon at a time on each of the two directories; they need not lie beneath one root.
absl::StatusOr<std::array<UniqueFd, 2>> TakeLocks(const Paths& paths) {
  auto state = TakeStateLock(paths.Lock());
  if (!state.ok()) return WithAdvice(state.status(), paths.state, "paths.state");
  auto run = TakeStateLock(paths.RunLock());
  if (!run.ok()) return WithAdvice(run.status(), paths.run, "paths.run");
  PublishPid(paths);
  return std::array{*std::move(state), *std::move(run)};
}

// Beside the configuration file, whether that is there or not. "" where there is no such place.
std::string TrustedKeysFile(const Flags& flags, const Config& config,
                            const Environment& environment) {
  std::error_code error;
  std::filesystem::path file = std::filesystem::absolute(flags.config_file, error);
  // /dev/null is no place.
  if (flags.config_file.empty() || std::filesystem::is_character_file(file, error)) {
    file = DefaultConfigFile(config.paths.root, getuid(), environment);
  }
  return file.empty() ? "" : file.lexically_normal().replace_filename("trusted_keys.pem").string();
}

absl::StatusOr<DaemonSetting> Prepare(const Config& config, const Paths& paths,
                                      const std::string& trusted_keys,
                                      const Environment& environment) {
  DaemonSetting setting;
  setting.config = config;
  setting.paths = paths;
  setting.toolchain_directories = ToolchainDirectories(config.toolchain, environment);
  setting.worker_script =
      config.workers.script.empty() ? WorkerProgram("triton_worker.py") : config.workers.script;
  if (access(setting.worker_script.c_str(), R_OK) != 0) {
    return ErrnoStatus(errno,
                       fmt::format("cannot read {} (set workers.script)", setting.worker_script));
  }
  setting.native_worker = WorkerProgram("kiln-worker");
  setting.trusted_keys = trusted_keys;
  if (access(setting.native_worker.c_str(), X_OK) != 0) {
    return ErrnoStatus(
        errno, fmt::format("cannot run {}; is the installation complete?", setting.native_worker));
  }
  KILN_ASSIGN_OR_RETURN(setting.activated_sockets, TakeActivatedSockets());
  // Once: a second SIGTERM would quit without waiting.
  setting.request_drain = [requested = std::make_shared<std::once_flag>()] {
    std::call_once(*requested, [] { kill(getpid(), SIGTERM); });
  };
  return setting;
}

// ALREADY_EXISTS: another kilnd runs on one of the directories.
absl::Status Run(const Config& config, const Paths& paths, const std::string& trusted_keys,
                 const Environment& environment) {
  // What others may read gets its permissions as it is made, whatever the umask of whoever starts
  // this.
  umask(022);
  KILN_RETURN_IF_ERROR(PrepareDirectories(paths));
  KILN_ASSIGN_OR_RETURN(const auto locks, TakeLocks(paths));
  RaiseDescriptorLimit();

  if (geteuid() == 0) {
    LogWarning(
        "kilnd runs as root, and its workers, too: who breaks out of a worker's jail is root. "
        "kilnd.service runs it as the user kiln");
  }

  // Before the first thread, so that all of them inherit it and signals come to AwaitSignal alone.
  const sigset_t signals = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  const UniqueFd stop(signalfd(-1, &signals, SFD_CLOEXEC));
  if (!stop) return ErrnoStatus(errno, "signalfd");

  KILN_ASSIGN_OR_RETURN(DaemonSetting setting, Prepare(config, paths, trusted_keys, environment));
  setting.stop_fd = stop.get();
  const auto assembled = Assemble(std::move(setting));
  if (absl::IsCancelled(assembled.status())) {
    LogInfo("stopped", {{"reason", Message(assembled.status())}});
    return absl::OkStatus();
  }
  KILN_RETURN_IF_ERROR(assembled.status());
  const std::unique_ptr<Daemon>& daemon = *assembled;

  ServiceNotifier notifier;
  notifier.Ready(daemon->StatusLine());
  AwaitSignal(*daemon, notifier);
  LogInfo("draining", {{"at_most_ms", config.sockets.drain_time.count()}});
  notifier.Stopping(config.sockets.drain_time);
  QuitOnNextSignal();
  daemon->Drain(SystemClock().Now() + config.sockets.drain_time);
  LogInfo("stopped");
  return absl::OkStatus();
}

// An empty path would mean the system's own place, and is a script's variable that is not set.
std::string CheckPathGiven(const std::string& text) {
  return text.empty() ? "is empty; name a path, or leave it out" : "";
}

std::vector<std::string> NamesOfFlags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

int Main(int argc, char** argv) {
  CLI::App app("Compiles GPU kernels once and keeps them.", "kilnd");
  Flags flags;
  app.add_option("--root", flags.root,
                 "Keep everything (state, sockets, hot directory) beneath this directory")
      ->check(CheckPathGiven);
  app.add_option("--config", flags.config_file, "Read this TOML file")->check(CheckPathGiven);
  app.add_option("--set", flags.settings, "section.field=value; wins over file and environment");
  app.add_flag("--check-config", flags.check_config, "Check the configuration and exit");
  app.add_flag("--print-config", flags.print_config,
               "Print the configuration in force, with its origins, and exit");
  app.set_version_flag("--version", "kilnd " KILN_VERSION);
  app.footer(
      "KILN_ROOT says the same as --root. Without --config: DIR/kilnd.toml of the root,\n"
      "else /etc/kiln/kilnd.toml (root), ~/.config/kiln/kilnd.toml (anyone else).\n"
      "Exit status: 0 stopped as asked, 1 could not start or run, 2 bad usage or configuration,\n"
      "3 another kilnd runs on the directory. docs/reference.md has every setting.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    const std::string option = text.substr(0, text.find(':'));
    return Fail(kBadUsage, InvalidArgument("{}: give it a value", option));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // its help, or its version
    const std::vector<std::string> unknown = app.remaining();
    const std::string why = unknown.empty()
                                ? error.what()
                                : fmt::format("'{}' is not known here{}", unknown.front(),
                                              DidYouMean(unknown.front(), NamesOfFlags(app)));
    return Fail(kBadUsage, InvalidArgument("{}; see 'kilnd --help'", why));
  }

  const Environment environment = ProcessEnvironment();
  const auto loaded = Load(flags, environment);
  if (!loaded.ok()) return Fail(kBadUsage, loaded.status());
  if (flags.print_config) return PrintConfigInForce(*loaded);
  if (flags.check_config) {
    const absl::Status checked = CheckConfig(*loaded, environment);
    return checked.ok() ? kOk : Fail(kBadUsage, checked);
  }
  SetLogLevel(loaded->config.log.level);
  const auto paths = ResolvePaths(loaded->config.paths, getuid(), environment);
  if (!paths.ok()) return Fail(kBadUsage, paths.status());
  const absl::Status status =
      Run(loaded->config, *paths, TrustedKeysFile(flags, loaded->config, environment), environment);
  if (status.ok()) return kOk;
  return Fail(absl::IsAlreadyExists(status) ? kAlreadyRunning : kFailed, status);
}

}  // namespace
}  // namespace kiln

// An exception that nobody catches ends the process: the C++ runtime writes its type and words to
// stderr and aborts (docs/adr/0021-an-exception-ends-the-daemon.md).
int main(int argc, char** argv) { return kiln::Main(argc, argv); }
