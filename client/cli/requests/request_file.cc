#include "client/cli/requests/request_file.h"

#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/output/json.h"
#include "client/cli/requests/own_entries.h"
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

constexpr char kOriginField[] = "manifest";
constexpr std::string_view kOriginLineBegin = R"({"manifest":)";
constexpr size_t kOriginLineBytesMax = 256 * limits::kKiB;
constexpr char kRecordedField[] = "recorded";

// {"count": 3, "compile_micros": 81000, "same_ir_targets": ["cuda:90"], "refused": true}. Fields of
// another form, or unknown ones, are passed over.
Recorded RecordedIn(const Json& line) {
  Recorded recorded;
  if (!line.contains(kRecordedField) || !line.at(kRecordedField).is_object()) return recorded;
  const Json& json = line.at(kRecordedField);
  const auto number = [&](const char* name, uint64_t& value) {
    if (json.contains(name) && json.at(name).is_number_unsigned()) value = json.at(name);
  };
  number("count", recorded.count);
  number("compile_micros", recorded.compile_micros);
  for (const Json& target : json.value("same_ir_targets", Json::array())) {
    if (target.is_string()) recorded.same_ir_targets.push_back(target);
  }
  recorded.is_refused = json.contains("refused") && json.at("refused") == true;
  return recorded;
}

// Whether the line is no request, but says what the requests were recorded by.
bool ReadOrigin(const Json& line, v1::ManifestOrigin& origin) {
  if (!line.is_object() || line.size() != 1 || !line.contains(kOriginField)) return false;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  v1::ManifestOrigin read;
  if (google::protobuf::util::JsonStringToMessage(Dump(line.at(kOriginField)), &read, options)
          .ok()) {
    Merge(read, origin);
  }
  return true;
}

// A whole source would be read as so many lines that are no JSON.
bool IsNamedAsSource(std::string_view path) {
  for (const std::string_view ending : {".ttir", ".ttgir", ".mlir", ".cu", ".cl", ".ptx"}) {
    if (path.ends_with(ending)) return true;
  }
  return false;
}

// Whether it begins as a file of Kiln's, or has a frame of zstd at its begin: a manifest whose
// first bytes are damaged, or a bundle.
bool IsBinary(std::istream& stream) {
  std::array<char, 64> begin{};
  stream.read(begin.data(), begin.size());
  const std::string_view bytes(begin.data(), static_cast<size_t>(stream.gcount()));
  stream.clear();
  stream.seekg(0);
  return bytes.starts_with("KILN") || bytes.find("\x28\xb5\x2f\xfd") != std::string_view::npos;
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

}  // namespace

bool IsOriginLine(std::string_view line) { return line.starts_with(kOriginLineBegin); }

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
  if (ManifestReader::IsManifest(path)) {
    KILN_ASSIGN_OR_RETURN(ManifestReader manifest, ManifestReader::Open(path));
    return RequestFile(std::move(manifest));
  }
  auto stream = std::make_shared<std::ifstream>(path, std::ios::binary);
  if (!stream->is_open()) return ErrnoStatus(errno, path);
  if (S_ISREG(status.st_mode) && IsBinary(*stream)) {
    return DataLoss(
        "{} is neither a manifest nor a file of requests, which has one JSON object a line", path);
  }
  return RequestFile(std::move(stream), std::filesystem::path(path).parent_path());
}

RequestFile::RequestFile(std::shared_ptr<std::istream> stream, std::string folder)
    : stream_(std::move(stream)),
      folder_(std::move(folder)),
      line_(std::make_unique_for_overwrite<char[]>(kLineBytesMax + 1)) {}

RequestFile::RequestFile(ManifestReader manifest)
    : manifest_(std::make_unique<ManifestReader>(std::move(manifest))) {}

const v1::ManifestOrigin& RequestFile::origin() const {
  return manifest_ != nullptr ? manifest_->index().origin() : origin_;
}

std::optional<NamedRequest> RequestFile::Next() {
  auto named = manifest_ != nullptr ? manifest_->Next() : NextLine();
  const auto& versions = origin().versions();
  const auto triton = versions.find("triton");
  if (named && triton != versions.end()) named->recorded.triton = triton->second;
  return named;
}

std::optional<NamedRequest> RequestFile::NextLine() {
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
  } while (IsBlank(line) || IsOwnEntryLine(line));

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
  if (ReadOrigin(*json, origin_)) return NextLine();
  named.name = StringIn(*json, "name").value_or(named.name);
  named.source_file = StringIn(*json, "source_file").value_or("");
  named.recorded = RecordedIn(*json);
  named.request = ParseRequest(*json, folder_);
  if (named.request.ok()) {
    named.request->mutable_source()->set_name(ContractName(named.name));
  } else if (named.name != DefaultName(number_)) {
    named.request = Annotate(named.request.status(), fmt::format("line {}", number_));
  }
  return named;
}

v1::ManifestOrigin OriginOf(const std::string& path) {
  v1::ManifestOrigin origin;
  if (ManifestReader::IsManifest(path)) {
    const auto manifest = ManifestReader::Open(path);
    return manifest.ok() ? manifest->index().origin() : origin;
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return origin;
  std::ifstream stream(path, std::ios::binary);
  const auto line = std::make_unique_for_overwrite<char[]>(kOriginLineBytesMax + 1);
  while (stream.getline(line.get(), kOriginLineBytesMax + 1) || stream.gcount() > 0) {
    if (stream.fail()) {  // too long: a request with its source
      stream.clear();
      stream.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    } else if (IsOriginLine(line.get())) {
      if (const auto json = ParseJson(line.get()); json.ok()) ReadOrigin(*json, origin);
    }
  }
  return origin;
}

void Merge(const v1::ManifestOrigin& more, v1::ManifestOrigin& origin) {
  const v1::ManifestOrigin before = origin;
  v1::ManifestOrigin added = more;
  added.clear_devices();
  for (const auto& [name, version] : origin.versions()) {
    const auto other = added.mutable_versions()->find(name);
    if (other == added.mutable_versions()->end()) continue;
    const bool is_known = version.find(other->second) != std::string::npos;
    other->second = is_known ? version : version + ", " + other->second;
  }
  if (origin.command_size() > 0) added.clear_command();
  origin.MergeFrom(added);
  origin.set_created_unix_ms(std::max(before.created_unix_ms(), more.created_unix_ms()));
  // Each of these would pass for that of all.
  if (before.ByteSizeLong() > 0) {
    if (before.job() != more.job()) origin.clear_job();
    if (before.model() != more.model()) origin.clear_model();
    if (before.host() != more.host()) origin.clear_host();
    if (!std::ranges::equal(before.command(), more.command())) origin.clear_command();
  }
  for (const std::string& device : more.devices()) {
    const auto& known = origin.devices();
    if (std::find(known.begin(), known.end(), device) == known.end()) origin.add_devices(device);
  }
}

std::string RequestLine(const NamedRequest& named) {
  assert(named.request.ok());
  Json line = {{"name", named.name}};
  line.update(RequestJson(*named.request));
  line[kRecordedField] = {{"count", named.recorded.count},
                          {"compile_micros", named.recorded.compile_micros},
                          {"same_ir_targets", named.recorded.same_ir_targets}};
  if (named.recorded.is_refused) line[kRecordedField]["refused"] = true;
  return Dump(line);
}

std::string OriginLine(const v1::ManifestOrigin& origin) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  // A message without Any always has a JSON form.
  (void)google::protobuf::util::MessageToJsonString(origin, &json, options);
  return fmt::format("{{\"{}\": {}}}", kOriginField, json);
}

}  // namespace kiln::cli
