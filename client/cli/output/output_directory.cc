#include "client/cli/output/output_directory.h"

#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/output/file_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/unfinished_file.h"

namespace kiln::cli {
namespace {

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
  KILN_ASSIGN_OR_RETURN(const auto file, UnfinishedFile::Create(path, 0666));
  KILN_RETURN_IF_ERROR(file->Write(content));
  return file->Finish();
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
