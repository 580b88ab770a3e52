#include "client/cli/requests/sass.h"

#include <absl/strings/str_split.h>
#include <glob.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "storage/base/digest.h"
#include "storage/base/unique_fd.h"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kStandardInput[] = "/proc/self/fd/0";

// Below a toolchain directory, or below one of the directories in it.
constexpr const char* kPlaces[] = {
    "bin/nvdisasm", "lib/python3.*/site-packages/triton/backends/nvidia/bin/nvdisasm",
    "lib/python3.*/site-packages/nvidia/cu*/bin/nvdisasm"};

std::vector<std::string> SplitPaths(const char* list) {
  return absl::StrSplit(list == nullptr ? "" : list, ':', absl::SkipEmpty());
}

std::vector<std::string> ToolchainDirectories() {
  std::vector<std::string> directories = SplitPaths(std::getenv("KILN_TOOLCHAIN_DIRECTORIES"));
  if (!directories.empty()) return directories;
  directories = {"/usr/lib/kiln/toolchains", "/var/lib/kiln/toolchains", "/usr/local/cuda"};
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') {
    directories.push_back(std::string(cache) + "/kiln/toolchains");
  } else if (home != nullptr && *home == '/') {
    directories.push_back(std::string(home) + "/.cache/kiln/toolchains");
  }
  return directories;
}

// Whether nobody but root and this user may change the file or a directory that leads to it.
bool IsOurs(fs::path real) {
  for (;; real = real.parent_path()) {
    struct stat info {};
    if (::lstat(real.c_str(), &info) != 0) return false;
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) return false;
    const bool is_sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !is_sticky) return false;
    if (real == real.root_path()) return true;
  }
}

std::string FindOurs(const std::string& directory) {
  std::string found;
  for (const char* inner : {"/", "/*/"}) {
    for (const char* place : kPlaces) {
      glob_t matches{};
      if (::glob((directory + inner + place).c_str(), 0, nullptr, &matches) == 0) {
        for (size_t i = 0; i < matches.gl_pathc; ++i) {
          std::error_code error;
          const fs::path real = fs::canonical(matches.gl_pathv[i], error);
          if (error || ::access(real.c_str(), X_OK) != 0 || !IsOurs(real)) continue;
          if (::strverscmp(found.c_str(), real.c_str()) < 0) found = real;
        }
      }
      ::globfree(&matches);
    }
  }
  return found;
}

absl::StatusOr<UniqueFd> MemoryFile(std::string_view content = "") {
  UniqueFd file(::memfd_create("nvdisasm", MFD_CLOEXEC));
  if (!file) return ErrnoStatus(errno, "memfd_create");
  if (::write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    return ErrnoStatus(errno, "hold the cubin in memory");
  }
  return file;
}

absl::StatusOr<std::string> ReadAll(const UniqueFd& file) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, "fstat");
  std::string content(static_cast<size_t>(info.st_size), '\0');
  if (::pread(file.get(), content.data(), content.size(), 0) != info.st_size) {
    return ErrnoStatus(errno, "read what nvdisasm wrote");
  }
  return content;
}

absl::StatusOr<pid_t> Start(const std::string& program, const UniqueFd& cubin,
                            const UniqueFd& output, const UniqueFd& errors) {
  char* const words[] = {const_cast<char*>(program.c_str()), const_cast<char*>("--print-code"),
                         const_cast<char*>(kStandardInput), nullptr};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, cubin.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, output.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, errors.get(), STDERR_FILENO);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, program.c_str(), &files, nullptr, words, environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) return ErrnoStatus(error, "start " + program);
  return pid;
}

}  // namespace

std::vector<std::string> AskForCubin(v1::CompileRequest& request) {
  auto& stages = *request.mutable_stages();
  const bool wants_sass = std::count(stages.begin(), stages.end(), kSassStage) != 0;
  if (!wants_sass || request.target().backend() != "cuda") return {};
  std::vector<std::string> wanted(stages.begin(), stages.end());
  std::replace(stages.begin(), stages.end(), std::string(kSassStage), std::string(kCubinStage));
  return wanted;
}

void DropForeignStages(const v1::ListToolchainsResponse& listed, v1::CompileRequest& request) {
  std::set<std::string> all = {kSassStage};
  std::set<std::string> own;
  for (const v1::Toolchain& toolchain : listed.toolchains()) {
    const auto& kinds = toolchain.kinds();
    const bool is_of_kind =
        std::find(kinds.begin(), kinds.end(), request.source().kind()) != kinds.end();
    for (const v1::Backend& backend : toolchain.backends()) {
      std::set<std::string> stages(backend.stages().begin(), backend.stages().end());
      if (stages.contains(kCubinStage)) stages.insert(kSassStage);
      all.insert(stages.begin(), stages.end());
      if (is_of_kind && backend.backend() == request.target().backend()) own.merge(stages);
    }
  }
  if (own.empty()) return;
  const auto is_foreign = [&](const std::string& stage) {
    return !own.contains(stage) && all.contains(stage);
  };
  auto& wanted = *request.mutable_stages();
  if (std::all_of(wanted.begin(), wanted.end(), is_foreign)) return;
  wanted.erase(std::remove_if(wanted.begin(), wanted.end(), is_foreign), wanted.end());
}

absl::Status AddSass(const std::string& nvdisasm, const std::vector<std::string>& wanted,
                     v1::CompileResponse& response) {
  v1::CompileResponse answered;
  answered.mutable_stages()->Swap(response.mutable_stages());
  for (const std::string& name : wanted) {
    const auto& had = answered.stages();
    const auto found = std::find_if(had.begin(), had.end(), [&](const v1::StageBlob& each) {
      return each.stage() == (name == kSassStage ? kCubinStage : name);
    });
    if (found == had.end()) continue;
    v1::StageBlob& stage = *response.add_stages();
    stage = *found;
    if (name != kSassStage) continue;
    KILN_ASSIGN_OR_RETURN(std::string sass, Disassemble(nvdisasm, found->content()));
    stage.set_stage(kSassStage);
    stage.set_digest(std::string(Digest::Of(sass).Bytes()));
    stage.set_size_bytes(sass.size());
    stage.set_content(std::move(sass));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FindNvdisasm(const std::string& named) {
  if (!named.empty()) return named;
  for (const std::string& directory : SplitPaths(std::getenv("PATH"))) {
    const std::string path = directory + "/nvdisasm";
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  for (const std::string& directory : ToolchainDirectories()) {
    if (std::string path = FindOurs(directory); !path.empty()) return path;
  }
  return FailedPrecondition(
      "the stage {} takes nvdisasm, and none is in PATH or in the toolchain directories. A CUDA "
      "toolkit has one, and so has Triton (kiln toolchain add triton==3.6.0). Name one with "
      "--nvdisasm, or leave that stage out",
      kSassStage);
}

absl::StatusOr<std::string> Disassemble(const std::string& nvdisasm, std::string_view cubin) {
  KILN_ASSIGN_OR_RETURN(const UniqueFd input, MemoryFile(cubin));
  KILN_ASSIGN_OR_RETURN(const UniqueFd output, MemoryFile());
  KILN_ASSIGN_OR_RETURN(const UniqueFd errors, MemoryFile());
  KILN_ASSIGN_OR_RETURN(const pid_t pid, Start(nvdisasm, input, output, errors));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "wait for " + nvdisasm);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ReadAll(output);
  KILN_ASSIGN_OR_RETURN(const std::string said, ReadAll(errors));
  const std::string end = WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status))
                                            : fmt::format("signal {} ({})", WTERMSIG(status),
                                                          ::strsignal(WTERMSIG(status)));
  return FailedPrecondition(
      "the kernel compiled, but is not disassembled: {} ended with {}: {}. A newer CUDA toolkit's "
      "nvdisasm knows more GPUs: name it with --nvdisasm, or leave the stage {} out",
      nvdisasm, end, said.substr(0, said.find('\n')), kSassStage);
}

}  // namespace kiln::cli
