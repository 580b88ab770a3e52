#include "client/cli/requests/request_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/output/json.h"
#include "client/cli/requests/request_json.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

// A source takes at most twice its size as a JSON string of ordinary text.
constexpr size_t kLineBytesMax = 2 * limits::kSourceBytesMax;

std::string DefaultName(uint64_t line) { return fmt::format("line-{}", line); }

// A string of the line; nothing where there is none of that name.
std::optional<std::string> StringIn(const Json& json, const char* name) {
  if (!json.is_object() || !json.contains(name) || !json.at(name).is_string()) return std::nullopt;
  return json.at(name).get<std::string>();
}

// A whole source would be read as so many lines that are no JSON.
bool IsNamedAsSource(std::string_view path) {
  for (const std::string_view ending : {".ttir", ".ttgir", ".mlir", ".cu", ".ptx"}) {
    if (path.ends_with(ending)) return true;
  }
  return false;
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

}  // namespace

absl::StatusOr<RequestFile> RequestFile::Open(const std::string& path) {
  if (path == "-") return RequestFile({&std::cin, [](std::istream*) {}}, ".");
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return ErrnoStatus(errno, path);
  if (S_ISDIR(status.st_mode)) return InvalidArgument("{} is a directory", path);
  if (IsNamedAsSource(path)) {
    return InvalidArgument(
        "{} is named as a source; a file of requests has one JSON object a line, and sources "
        "follow 'kiln compile'",
        path);
  }
  auto stream = std::make_shared<std::ifstream>(path, std::ios::binary);
  if (!stream->is_open()) return ErrnoStatus(errno, path);
  return RequestFile(std::move(stream), std::filesystem::path(path).parent_path());
}

RequestFile::RequestFile(std::shared_ptr<std::istream> stream, std::string folder)
    : stream_(std::move(stream)),
      folder_(std::move(folder)),
      line_(std::make_unique_for_overwrite<char[]>(kLineBytesMax + 1)) {}

std::optional<NamedRequest> RequestFile::Next() {
  std::string_view line;
  bool is_too_long = false;
  do {
    stream_->getline(line_.get(), kLineBytesMax + 1);
    if (stream_->gcount() == 0) return std::nullopt;
    ++number_;
    is_too_long = stream_->fail();
    if (is_too_long) {
      stream_->clear();
      stream_->ignore(std::numeric_limits<std::streamsize>::max(), '\n');
      break;
    }
    const std::streamsize line_end_bytes = stream_->eof() ? 0 : 1;
    line = {line_.get(), static_cast<size_t>(stream_->gcount() - line_end_bytes)};
    if (line.ends_with('\r')) line.remove_suffix(1);
  } while (IsBlank(line));

  NamedRequest named{DefaultName(number_), number_, v1::CompileRequest()};
  if (is_too_long) {
    named.request = ResourceExhausted("longer than {} bytes", kLineBytesMax);
    return named;
  }
  const absl::StatusOr<Json> json = ParseJson(line);
  if (!json.ok()) {
    // Whatever is wrong with a line is its writer's.
    named.request = InvalidArgument("{}", Message(json.status()));
    return named;
  }
  named.name = StringIn(*json, "name").value_or(named.name);
  named.source_file = StringIn(*json, "source_file").value_or("");
  named.request = ParseRequest(*json, folder_);
  if (named.request.ok()) {
    named.request->mutable_source()->set_name(ContractName(named.name));
  } else if (named.name != DefaultName(number_)) {
    named.request = Annotate(named.request.status(), fmt::format("line {}", number_));
  }
  return named;
}

}  // namespace kiln::cli
