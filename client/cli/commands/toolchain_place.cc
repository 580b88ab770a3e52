#include "client/cli/commands/toolchain_place.h"

#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;

bool IsWord(std::string_view text) {
  return !text.empty() && std::isalnum(static_cast<unsigned char>(text.front())) != 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '+' || c == '-';
         });
}

bool MayWrite(const fs::path& directory) { return ::access(directory.c_str(), W_OK | X_OK) == 0; }

// Whether the nearest of its parents that is there may be written to.
bool MayMake(fs::path directory) {
  std::error_code error;
  while (directory.has_relative_path() && !fs::exists(directory, error)) {
    directory = directory.parent_path();
  }
  return MayWrite(directory);
}

// ETXTBSY and the like are the installer's to say.
absl::Status RunProgram(const std::string& path, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), path);
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t streams;
  ::posix_spawn_file_actions_init(&streams);
  // Standard output is this command's.
  ::posix_spawn_file_actions_adddup2(&streams, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, path.c_str(), &streams, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&streams);
  if (error != 0) return ErrnoStatus(error, "start " + path);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "wait for " + path);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return FailedPrecondition("{} failed; what it said stands above", path);
}

std::string Installer() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "lib/kiln/install-toolchain";
}

}  // namespace

absl::StatusOr<ToolchainName> ParseToolchainName(std::string_view text) {
  const size_t equals = text.find("==");
  const bool has_version = equals != std::string_view::npos;
  ToolchainName parsed;
  parsed.name = text.substr(0, equals);
  if (has_version) parsed.version = text.substr(equals + 2);
  if (IsWord(parsed.name) && (!has_version || IsWord(parsed.version))) return parsed;
  return InvalidArgument("'{}' is no toolchain's name; write NAME==VERSION, as triton==3.6.0",
                         text);
}

absl::StatusOr<std::string> ChoosePlace(const std::vector<std::string>& searched) {
  std::vector<std::string> places;
  for (const std::string& each : searched) {
    if (!(each + "/").starts_with("/usr/")) places.push_back(each);
  }
  std::error_code error;
  for (const std::string& each : places) {
    if (fs::is_directory(each, error) && MayWrite(each)) return each;
  }
  for (const std::string& each : places) {
    if (!fs::exists(each, error) && MayMake(each)) return each;
  }
  return PermissionDenied(
      "you may not write to any directory that the daemon searches for toolchains ({}); ask as "
      "root or as the daemon's user, or name another directory in its toolchain.directories",
      fmt::join(searched, ", "));
}

absl::StatusOr<std::string> InstallToolchain(const std::string& place,
                                             const ToolchainName& wanted) {
  const std::string program = Installer();
  if (::access(program.c_str(), X_OK) != 0) {
    return ErrnoStatus(errno, fmt::format("run {}; is the installation complete?", program));
  }
  KILN_RETURN_IF_ERROR(
      RunProgram(program, {"--into", place, fmt::format("{}=={}", wanted.name, wanted.version)}));
  return fmt::format("{}/{}-{}", place, wanted.name, wanted.version);
}

}  // namespace kiln::cli
