#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <optional>
#include <utility>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/stored_requests.h"
#include "client/cli/output/format.h"
#include "client/cli/requests/manifest_origin.h"
#include "client/cli/requests/manifest_writer.h"
#include "client/cli/requests/own_entries.h"
#include "client/cli/requests/request_file.h"
#include "client/rpc/admin_client.h"
#include "storage/base/clock.h"

namespace kiln::cli {
namespace {

struct RecordArguments {
  std::string output = "job.kiln";
  std::string job;
  std::string model;
  std::optional<double> since_seconds;
  std::vector<std::string> command;
};

// What a shell adds to the number of the signal that ended a command.
constexpr int kSignalExit = 128;

// The job that gets this command's signals.
volatile sig_atomic_t g_job = 0;

// A terminal sends its Ctrl-C to the job as well. What others send to this command is the job's.
void Forward(int signal_number, siginfo_t* info, void*) {
  const bool is_of_terminal =
      info->si_code == SI_KERNEL && (signal_number == SIGINT || signal_number == SIGQUIT);
  if (g_job > 0 && !is_of_terminal) ::kill(g_job, signal_number);
}

constexpr std::array kForwarded = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

void LeaveSignalsToJob() {
  struct sigaction action {};
  action.sa_sigaction = Forward;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (const int sent : kForwarded) ::sigaction(sent, &action, nullptr);
}

// `root`: of the daemon; "": as the job finds it.
std::vector<std::string> Environment(const std::string& recording, const std::string& job,
                                     const std::string& root) {
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
  const auto set = [&](const std::string& name, const std::string& value) {
    std::erase_if(environment, [&](const std::string& one) { return one.starts_with(name + "="); });
    environment.push_back(name + "=" + value);
  };
  set("KILN_MODE", "record");
  set("KILN_MANIFEST", recording);
  if (!job.empty()) set("KILN_JOB", job);
  if (!root.empty()) set("KILN_ROOT", std::filesystem::absolute(root));
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& each : strings) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs the job to its end, and returns what a shell would.
absl::StatusOr<int> RunJob(std::vector<std::string> command, std::vector<std::string> environment) {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // They wait until there is a job to get them.
  sigset_t forwarded;
  ::sigemptyset(&forwarded);
  for (const int each : kForwarded) ::sigaddset(&forwarded, each);
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &forwarded, &before);
  ::posix_spawnattr_setsigmask(&attributes, &before);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  LeaveSignalsToJob();
  pid_t job = 0;
  const int error = ::posix_spawnp(&job, command.front().c_str(), nullptr, &attributes,
                                   Pointers(command).data(), Pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) g_job = job;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return CannotRun(About(command.front(), ErrnoStatus(error, "cannot run it")));
  int status = 0;
  while (::waitpid(job, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "wait for the job");
  }
  g_job = 0;
  return WIFSIGNALED(status) ? kSignalExit + WTERMSIG(status) : WEXITSTATUS(status);
}

absl::StatusOr<uint64_t> Finish(ManifestWriter& writer, v1::ManifestOrigin origin,
                                const RecordArguments& arguments) {
  if (!arguments.job.empty()) origin.set_job(arguments.job);
  if (!arguments.model.empty()) origin.set_model(arguments.model);
  for (const std::string& word : arguments.command) origin.add_command(word);
  AddWriter(origin);
  KILN_RETURN_IF_ERROR(writer.Finish(origin));
  return writer.requests();
}

struct Packed {
  uint64_t requests = 0;
  bool is_kept = false;  // nothing was recorded, and the file that was there stays
};

// Writes the recorded lines as a manifest. Lines that cannot be read are told and left out.
absl::StatusOr<Packed> Pack(const std::string& recording, const RecordArguments& arguments,
                            Session& session) {
  KILN_ASSIGN_OR_RETURN(const auto writer, ManifestWriter::Create(arguments.output));
  v1::ManifestOrigin origin;
  std::error_code error;
  if (std::filesystem::exists(recording, error)) {
    KILN_ASSIGN_OR_RETURN(RequestFile file, RequestFile::Open(recording));
    while (const auto named = file.Next()) {
      if (named->request.ok()) {
        KILN_RETURN_IF_ERROR(writer->Add(*named));
      } else {
        Fail(session.console(), "left out", Annotate(named->request.status(), named->name));
      }
    }
    origin = file.origin();
    KILN_RETURN_IF_ERROR(ForEachOwnEntry(
        recording, [&](const v1::OwnEntry& entry) { return writer->AddOwn(entry); }));
  }
  if (writer->IsEmpty() && std::filesystem::exists(arguments.output, error)) return Packed{0, true};
  KILN_ASSIGN_OR_RETURN(const uint64_t requests, Finish(*writer, std::move(origin), arguments));
  return Packed{requests, false};
}

// What a daemon has of a job, or of the last hours.
absl::StatusOr<ExitCode> RecordStored(const RecordArguments& arguments, Session& session) {
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdminOrOwn());
  KILN_ASSIGN_OR_RETURN(const auto writer, CannotRun(ManifestWriter::Create(arguments.output)));
  admin::v1::ListRequestsRequest wanted;
  wanted.set_job(arguments.job);
  if (arguments.since_seconds) {
    const auto age_ms = static_cast<int64_t>(1000 * *arguments.since_seconds);
    wanted.set_since_unix_ms(SystemClock().UnixMillis() - age_ms);
  }
  v1::ManifestOrigin origin;
  KILN_RETURN_IF_ERROR(AddStoredRequests(*admin, wanted, session, *writer, origin));
  if (writer->IsEmpty()) {
    session.console().err << "kiln record: the daemon has nothing of it, so nothing is written\n"
                             "  try: kiln stats --jobs lists the jobs\n";
    return kFailed;
  }
  AddDevices(origin);
  KILN_ASSIGN_OR_RETURN(const uint64_t packed,
                        CannotRun(Finish(*writer, std::move(origin), arguments)));
  session.console().err << fmt::format(
      "kiln record: {}, {} of uid {} in {}\n", FormatCount(packed, "kernel"),
      FormatCount(writer->own_entries(), "recorded key"), ::geteuid(), arguments.output);
  if (writer->own_entries() == 0 && !admin->is_own()) session.console().err << kOtherUsersKeys;
  return kOk;
}

absl::StatusOr<ExitCode> RunRecord(const RecordArguments& arguments, Session& session) {
  if (arguments.command.empty()) {
    if (!arguments.job.empty() || arguments.since_seconds) return RecordStored(arguments, session);
    return CannotRun(InvalidArgument("give a COMMAND behind --, or --job NAME, or --since TIME"));
  }
  if (arguments.since_seconds) {
    return CannotRun(InvalidArgument("--since is of what a daemon has, and a COMMAND is run"));
  }
  // Absolute, since the job may change its folder.
  std::error_code error;
  const std::string recording =
      std::filesystem::absolute(arguments.output, error).string() + ".recording.jsonl";
  if (::access(recording.c_str(), F_OK) == 0) {
    return CannotRun(
        AlreadyExists("{} is there: another recording runs, or one was interrupted", recording),
        "what was recorded is a manifest: kiln manifest merge it, or remove it");
  }
  // Before a long job rather than after it.
  KILN_RETURN_IF_ERROR(CannotRun(ManifestWriter::Create(arguments.output).status()));
  const UniqueFd writable(::open(recording.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!writable) return CannotRun(About("cannot write", ErrnoStatus(errno, recording)));

  // The plug-in makes it in a process that cannot write to the recording.
  const std::string incomplete = recording + ".incomplete";
  ::unlink(incomplete.c_str());
  const absl::StatusOr<int> code =
      RunJob(arguments.command, Environment(recording, arguments.job, session.root()));
  if (!code.ok()) {
    ::unlink(recording.c_str());
    return code.status();
  }
  const absl::StatusOr<Packed> packed = Pack(recording, arguments, session);
  Console& console = session.console();
  if (::unlink(incomplete.c_str()) == 0) {
    console.err << "kiln record: the manifest is incomplete: a process could not write to the "
                   "recording, and its log says why\n";
  }
  if (packed.ok()) {
    ::unlink(recording.c_str());
    console.err << (packed->is_kept
                        ? fmt::format("kiln record: nothing was recorded, so {} is as it was\n",
                                      arguments.output)
                        : fmt::format("kiln record: {} in {}\n",
                                      FormatCount(packed->requests, "kernel"), arguments.output));
    if (packed->requests == 0 && *code == 0) {
      console.err << "  try: is the plug-in on in the job? docs/python.md says how\n";
    }
  } else {
    Fail(console, "cannot write",
         CannotRun(packed.status(), fmt::format("what was recorded is in {}", recording)));
  }
  return static_cast<ExitCode>(*code);
}

}  // namespace

void AddRecord(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "record", "Record the kernels that a job asks for: run it, or ask the daemon", RunRecord);
  command.Add("-o,--output", arguments.output, "The manifest (default: job.kiln)",
              {.value_name = "FILE", .is_path = true});
  command.Add("--job", arguments.job,
              "The job's name. Without COMMAND: what the daemon has compiled first for it");
  command.Add("--model", arguments.model, "The model that the job runs, for those who read it");
  command.Add("--since", arguments.since_seconds,
              "Without COMMAND: what was compiled or used in the last 2h, say",
              {.value_name = "TIME"});
  command.Add("COMMAND", arguments.command, "The job, behind --");
}

}  // namespace kiln::cli
