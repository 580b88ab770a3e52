#include "client/cli/requests/request_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/output/parse_json.h"
#include "client/cli/requests/request_json.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

// A source takes at most twice its size as a JSON string of ordinary text.
constexpr size_t kLineBytesMax = 2 * limits::kSourceBytesMax;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

std::string DefaultName(uint64_t line) { return fmt::format("line-{}", line); }

// The line's own name, or its number.
std::string NameOf(const Json& json, uint64_t line) {
  const auto name = json.is_object() ? json.find("name") : json.end();
  if (json.is_object() && name != json.end() && name->is_string()) return name->get<std::string>();
  return DefaultName(line);
}

// "" where the source stands in the line.
std::string SourceFileOf(const Json& json) {
  const auto file = json.is_object() ? json.find("source_file") : json.end();
  return json.is_object() && file != json.end() && file->is_string() ? file->get<std::string>()
                                                                     : "";
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
  if (path == "-") return RequestFile(std::cin, ".");
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return ErrnoStatus(errno, path);
  if (S_ISDIR(status.st_mode)) return InvalidArgument("{} is a directory", path);
  if (IsNamedAsSource(path)) {
    return InvalidArgument(
        "{} is named as a source; a file of requests has one JSON object a line, and sources "
        "follow 'kiln compile'",
        path);
  }
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!stream->is_open()) return ErrnoStatus(errno, path);
  return RequestFile(std::move(stream), FolderOf(path));
}

RequestFile::RequestFile(std::istream& stream, std::string folder)
    : lines_(stream, kLineBytesMax), folder_(std::move(folder)) {}

RequestFile::RequestFile(std::unique_ptr<std::ifstream> stream, std::string folder)
    : owned_(std::move(stream)), lines_(*owned_, kLineBytesMax), folder_(std::move(folder)) {}

std::optional<NamedRequest> RequestFile::Next() {
  std::string line;
  LineReader::Outcome outcome;
  do {
    outcome = lines_.Next(line);
    if (outcome == LineReader::Outcome::kEnd) return std::nullopt;
  } while (outcome == LineReader::Outcome::kLine && IsBlank(line));

  const uint64_t number = lines_.number();
  NamedRequest named{DefaultName(number), number, v1::CompileRequest()};
  if (outcome == LineReader::Outcome::kTooLong) {
    named.request = ResourceExhausted("longer than {} bytes", kLineBytesMax);
    return named;
  }
  const absl::StatusOr<Json> json = ParseJson(line);
  if (!json.ok()) {
    // Whatever is wrong with a line is its writer's.
    named.request = InvalidArgument("{}", Message(json.status()));
    return named;
  }
  named.name = NameOf(*json, number);
  named.source_file = SourceFileOf(*json);
  named.request = ParseRequest(*json, folder_);
  if (named.request.ok()) {
    named.request->mutable_source()->set_name(ContractName(named.name));
  } else if (named.name != DefaultName(number)) {
    named.request = Annotate(named.request.status(), fmt::format("line {}", number));
  }
  return named;
}

}  // namespace kiln::cli
