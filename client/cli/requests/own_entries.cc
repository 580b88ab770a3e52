#include "client/cli/requests/own_entries.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <memory>

#include "client/cli/requests/manifest_reader.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

// {"own": {"key": …, "files": […]}}, the fields of kiln.v1.OwnEntry.
constexpr std::string_view kEntryLineBegin = R"({"own":)";
constexpr size_t kEntryLineBytesMax = 2 * limits::kSourceBytesMax;

std::optional<v1::OwnEntry> ParseLine(std::string_view line) {
  line = line.substr(0, line.find_last_of('}'));
  line.remove_prefix(kEntryLineBegin.size());
  v1::OwnEntry entry;
  const std::string json(line);
  if (!google::protobuf::util::JsonStringToMessage(json, &entry).ok()) return std::nullopt;
  return entry;
}

}  // namespace

bool IsOwnEntryLine(std::string_view line) { return line.starts_with(kEntryLineBegin); }

std::string OwnEntryLine(const v1::OwnEntry& entry) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  // A message without Any always has a JSON form.
  (void)google::protobuf::util::MessageToJsonString(entry, &json, options);
  return fmt::format("{} {}}}", kEntryLineBegin, json);
}

absl::Status ForEachOwnEntry(const std::string& path,
                             const std::function<absl::Status(const v1::OwnEntry&)>& visit) {
  if (ManifestReader::IsManifest(path)) {
    KILN_ASSIGN_OR_RETURN(const ManifestReader manifest, ManifestReader::Open(path));
    for (int number = 0; number < manifest.index().own_pages_size(); ++number) {
      KILN_ASSIGN_OR_RETURN(const v1::ManifestOwnPage page, manifest.OwnPage(number));
      for (const v1::OwnEntry& entry : page.entries()) KILN_RETURN_IF_ERROR(visit(entry));
    }
    return absl::OkStatus();
  }
  std::ifstream stream(path, std::ios::binary);
  const auto line = std::make_unique_for_overwrite<char[]>(kEntryLineBytesMax + 1);
  while (stream.getline(line.get(), kEntryLineBytesMax + 1) || stream.gcount() > 0) {
    if (stream.fail()) {  // too long
      stream.clear();
      stream.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    } else if (IsOwnEntryLine(line.get())) {
      if (const auto entry = ParseLine(line.get())) KILN_RETURN_IF_ERROR(visit(*entry));
    }
  }
  return absl::OkStatus();
}

// Keys as client/python/kiln/_plugin/own.py makes them.
bool IsTuning(const v1::OwnEntry& entry) { return entry.key().starts_with("triton tuning "); }

bool IsWarmMarker(const v1::OwnEntry& entry) { return entry.key().starts_with(kWarmMarkerBegin); }

std::optional<TrustedFile> TrustedFile::Open(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      (status.st_uid != 0 && status.st_uid != ::geteuid()) ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return std::nullopt;
  }
  return TrustedFile(std::move(file));
}

std::string TrustedFile::path() const { return fmt::format("/proc/self/fd/{}", file_.get()); }

}  // namespace kiln::cli
