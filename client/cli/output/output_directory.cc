#include "client/cli/output/output_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/output/file_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "storage/base/filesystem.h"
#include "storage/base/unique_fd.h"

namespace kiln::cli {
namespace {

// Hidden, and of this process alone, so that two commands may write to one folder.
std::string TemporaryName(const std::string& path) {
  const size_t slash = path.rfind('/') + 1;
  return fmt::format("{}.{}.{}.tmp", path.substr(0, slash), path.substr(slash), ::getpid());
}

// Names the file when it is whole, so that nothing stays of a command that is interrupted. False
// where the file system has no files without a name, something has that name, or a write failed.
bool WriteNewAtOnce(const std::string& path, std::string_view content) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const UniqueFd file(
      ::open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
  while (file && !content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<size_t>(written));
  }
  const std::string nameless = fmt::format("/proc/self/fd/{}", file.get());
  return file &&
         ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

Json Describe(const std::string& name, const std::string& file,
              const v1::CompileResponse& response) {
  Json json{{"name", name}};
  json.update(ToJson(response));
  json.erase("tier");
  for (Json& stage : json["stages"]) {
    stage["file"] = fmt::format("{}.{}", file, SafeFileName(stage["stage"].get<std::string>()));
  }
  return json;
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  if (WriteNewAtOnce(path, content)) return absl::OkStatus();
  const std::string temporary = TemporaryName(path);
  OsFilesystem().Remove(temporary).IgnoreError();  // of a dead process with our number
  if (const absl::Status written = OsFilesystem().WriteNew(temporary, content, 0666);
      !written.ok()) {
    return Annotate(written, path);
  }
  absl::Status renamed = OsFilesystem().Rename(temporary, path);
  if (!renamed.ok()) OsFilesystem().Remove(temporary).IgnoreError();
  return renamed;
}

absl::StatusOr<std::unique_ptr<OutputDirectory>> OutputDirectory::Open(std::string path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), path);
  if (!std::filesystem::is_directory(path, error))
    return InvalidArgument("{} is not a directory", path);
  if (::access(path.c_str(), W_OK | X_OK) != 0) return ErrnoStatus(errno, path);
  return std::unique_ptr<OutputDirectory>(new OutputDirectory(std::move(path)));
}

absl::Status OutputDirectory::Write(const std::string& name, const std::string& file,
                                    const v1::CompileResponse& response) {
  assert(file.find('/') == std::string::npos);
  const std::string base = path_ + "/" + file;
  for (const v1::StageBlob& stage : response.stages()) {
    if (!stage.has_content()) continue;
    KILN_RETURN_IF_ERROR(
        WriteFileAtomically(base + "." + SafeFileName(stage.stage()), stage.content()));
  }
  KILN_RETURN_IF_ERROR(
      WriteFileAtomically(base + ".json", DumpPretty(Describe(name, file, response))));
  if (index_) {
    *index_ += (index_->empty() ? "\n" : ",\n") +
               Dump(Json{{"name", name}, {"file", file}, {"key", Hex(response.key())}});
  }
  return absl::OkStatus();
}

absl::Status OutputDirectory::FinishIndex() {
  return WriteFileAtomically(path_ + "/index.json", fmt::format("[{}\n]\n", index_.value_or("")));
}

}  // namespace kiln::cli
