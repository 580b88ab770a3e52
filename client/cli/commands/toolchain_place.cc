#include "client/cli/commands/toolchain_place.h"

#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEquals = "==";
constexpr std::string_view kOfPackages = "/usr/";
constexpr std::string_view kRemoving = ".removing-";
constexpr std::string_view kUnfinished[] = {".partial", ".tmp"};
constexpr std::string_view kInstaller = "install-toolchain";

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
  return program.parent_path().parent_path() / "lib/kiln" / kInstaller;
}

}  // namespace

absl::StatusOr<ToolchainName> ParseToolchainName(std::string_view text) {
  ToolchainName parsed;
  const size_t equals = text.find(kEquals);
  parsed.name = text.substr(0, equals);
  if (equals != std::string_view::npos) parsed.version = text.substr(equals + kEquals.size());
  const bool has_version = equals != std::string_view::npos;
  if (IsWord(parsed.name) && (!has_version || IsWord(parsed.version))) return parsed;
  return InvalidArgument("'{}' is no toolchain's name; write NAME==VERSION, as triton==3.6.0",
                         text);
}

absl::StatusOr<std::string> ChoosePlace(const std::vector<std::string>& searched) {
  std::vector<std::string> places;
  for (const std::string& each : searched) {
    if (!each.starts_with(kOfPackages)) places.push_back(each);
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
      "root "
      "or as the daemon's user, or name another directory in its toolchain.directories",
      fmt::join(searched, ", "));
}

absl::StatusOr<std::string> OwnPlace() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/kiln/toolchains";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/kiln/toolchains";
  return FailedPrecondition("HOME is not set; say where with --into DIR");
}

absl::StatusOr<std::string> LinkToolchain(const std::string& place, const std::string& name,
                                          const std::string& directory, bool& is_new) {
  std::error_code error;
  const fs::path real = fs::canonical(directory, error);
  if (error) return ErrnoStatus(error.value(), directory);
  if (!fs::is_directory(real, error)) return NotFound("{} is no directory", directory);
  const std::string last = real.filename().string();
  for (const std::string_view mark : kUnfinished) {
    if (last.find(mark) == std::string::npos) continue;
    return FailedPrecondition(
        "{} has '{}' in its name, which kilnd takes for an installation that is not finished: "
        "rename it",
        real.string(), mark);
  }
  fs::create_directories(place, error);
  if (error) return ErrnoStatus(error.value(), "make " + place);
  const bool is_named_so = last.starts_with(name + "-");
  const fs::path link = fs::path(place) / (is_named_so ? last : fmt::format("{}-{}", name, last));
  fs::create_directory_symlink(real, link, error);
  is_new = !error;
  if (!error) return link.string();
  if (error != std::errc::file_exists) {
    return ErrnoStatus(error.value(), fmt::format("make the link {}", link.string()));
  }
  if (fs::canonical(link, error) == real) return link.string();
  return AlreadyExists(
      "{} is there already and is not {}: rename one of the two directories, or name another place "
      "with --into",
      link.string(), real.string());
}

absl::StatusOr<std::string> SetToolchainAside(const std::string& place,
                                              const std::string& installation) {
  const fs::path path = fs::path(installation).lexically_normal();
  const std::string name = path.filename().string();
  std::error_code error;
  const fs::path holder = fs::canonical(path.parent_path(), error);
  const bool is_inside = !error && holder == fs::canonical(place, error) && !error &&
                         !name.empty() && name != "." && name != "..";
  if (!is_inside) return FailedPrecondition("{} does not lie in {}", installation, place);
  if (fs::is_symlink(path, error)) {
    if (fs::remove(path, error)) return "";
    return ErrnoStatus(error.value(), "remove the link " + installation);
  }
  const fs::path aside = holder / fmt::format("{}{}-{}", kRemoving, name, ::getpid());
  fs::rename(path, aside, error);
  if (error) return ErrnoStatus(error.value(), "rename " + installation);
  return aside.string();
}

absl::Status DeleteToolchain(const std::string& set_aside) {
  if (set_aside.empty()) return absl::OkStatus();
  std::error_code error;
  fs::remove_all(set_aside, error);
  return error ? ErrnoStatus(error.value(), "delete " + set_aside) : absl::OkStatus();
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
