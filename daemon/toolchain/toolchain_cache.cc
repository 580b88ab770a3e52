#include "daemon/toolchain/toolchain_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <sstream>

#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

constexpr size_t kDigestDigits = 12;  // as tables show
constexpr std::string_view kFingerprintEnd = ".fingerprint";
constexpr std::string_view kTextEnd = ".files";
constexpr std::string_view kDescriptionEnd = ".description.json";
constexpr std::string_view kPartialEnd = ".tmp";

std::string FingerprintName(const Digest& listing) {
  return fmt::format("{}{}", listing.Hex(), kFingerprintEnd);
}

std::string TextName(const Digest& fingerprint) {
  return fmt::format("{}{}", fingerprint.Hex(), kTextEnd);
}

std::string DescriptionName(const Digest& fingerprint, const Digest& script) {
  return fmt::format("{}-{}{}", fingerprint.Hex(), script.ShortHex(), kDescriptionEnd);
}

// Whether a file is one that a cache makes.
bool IsOurs(std::string_view name) {
  return name.ends_with(kFingerprintEnd) || name.ends_with(kTextEnd) ||
         name.ends_with(kDescriptionEnd) || name.ends_with(kPartialEnd);
}

// Whether it is a file, and its label or the line's first word.
using TextLine = std::pair<bool, std::string>;

// The lines of a fingerprint's text: "<word> <value>", then "<digest>  <label>" of each file.
std::map<TextLine, std::string> ParseText(const std::string& text) {
  std::map<TextLine, std::string> values;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const size_t file = line.find("  ");
    if (file == 2 * Digest::kSizeBytes) {
      values[{true, line.substr(file + 2)}] = line.substr(0, kDigestDigits);
    } else {
      const size_t space = std::min(line.find(' '), line.size());
      values[{false, line.substr(0, space)}] = line.substr(std::min(space + 1, line.size()));
    }
  }
  return values;
}

absl::Status CheckPrivate(const std::string& directory) {
  struct stat info {};
  if (::lstat(directory.c_str(), &info) != 0) return ErrnoStatus(errno, "look at " + directory);
  if (info.st_uid != ::geteuid()) {
    return PermissionDenied("{} belongs to user {}, not to this one", directory, info.st_uid);
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return PermissionDenied("others may write to {}; take that right away (chmod go-w)", directory);
  }
  return absl::OkStatus();
}

}  // namespace

ToolchainCache::ToolchainCache(std::string directory, Filesystem& filesystem)
    : filesystem_(filesystem) {
  if (directory.empty()) return;
  absl::Status status = filesystem_.MakeDirectory(directory, 0700);
  if (status.ok()) status = CheckPrivate(directory);
  if (status.ok()) {
    directory_ = std::move(directory);
  } else {
    LogWarning("toolchains are examined at every start", {{"error", Message(status)}});
  }
}

std::optional<Digest> ToolchainCache::FindFingerprint(const Digest& listing) {
  const std::optional<std::string> text = Read(FingerprintName(listing));
  if (!text) return std::nullopt;
  const absl::StatusOr<Digest> fingerprint = Digest::FromHex(*text);
  return fingerprint.ok() ? std::optional<Digest>(*fingerprint) : std::nullopt;
}

void ToolchainCache::StoreFingerprint(const Digest& listing, const Digest& fingerprint) {
  Write(FingerprintName(listing), fingerprint.Hex());
}

bool ToolchainCache::HasText(const Digest& fingerprint) {
  const std::optional<std::string> text = Read(TextName(fingerprint));
  return text && Digest::Of(*text) == fingerprint;
}

void ToolchainCache::StoreText(const ToolchainFingerprint& fingerprint) {
  Write(TextName(fingerprint.digest), fingerprint.text);
}

std::optional<std::string> ToolchainCache::FindDescription(const Digest& fingerprint,
                                                           const Digest& script) {
  return Read(DescriptionName(fingerprint, script));
}

void ToolchainCache::StoreDescription(const Digest& fingerprint, const Digest& script,
                                      const std::string& description) {
  Write(DescriptionName(fingerprint, script), description);
}

void ToolchainCache::RemoveUnused() {
  if (directory_.empty()) return;
  const auto entries = filesystem_.List(directory_);
  if (!entries.ok()) return;
  std::vector<DirectoryEntry> texts;
  const auto remove = [this](const DirectoryEntry& entry) {
    filesystem_.Remove(directory_ + "/" + entry.name).IgnoreError();
  };
  for (const DirectoryEntry& entry : *entries) {
    const bool is_file = entry.kind == DirectoryEntry::Kind::kFile;
    if (!is_file || !IsOurs(entry.name) || used_.contains(entry.name)) continue;
    if (entry.name.ends_with(kTextEnd)) {
      texts.push_back(entry);
    } else {
      remove(entry);
    }
  }
  std::sort(texts.begin(), texts.end(),
            [](const auto& a, const auto& b) { return a.modified_ns > b.modified_ns; });
  for (size_t i = limits::kToolchainTextsMax; i < texts.size(); ++i) remove(texts[i]);
}

std::optional<std::string> ToolchainCache::Read(const std::string& name) {
  if (directory_.empty()) return std::nullopt;
  used_.insert(name);
  auto content = filesystem_.Read(directory_ + "/" + name, limits::kToolchainTextBytesMax);
  return content.ok() ? std::optional<std::string>(*std::move(content)) : std::nullopt;
}

void ToolchainCache::Write(const std::string& name, const std::string& content) {
  if (directory_.empty()) return;
  used_.insert(name);
  const std::string path = directory_ + "/" + name;
  const std::string temporary = fmt::format("{}.{}{}", path, ::getpid(), kPartialEnd);
  absl::Status written = filesystem_.WriteNew(temporary, content, 0600);
  if (written.ok()) written = filesystem_.Rename(temporary, path);
  if (!written.ok()) LogWarning("what a toolchain is was not kept", {{"error", Message(written)}});
}

std::vector<RequestDifference> CompareToolchains(const std::string& directory,
                                                 Filesystem& filesystem, const Digest& asked,
                                                 const Digest& stored) {
  const auto read = [&](const Digest& fingerprint) {
    return filesystem.Read(directory + "/" + TextName(fingerprint), limits::kToolchainTextBytesMax);
  };
  const auto asked_text = read(asked);
  const auto stored_text = read(stored);
  if (!asked_text.ok() || !stored_text.ok()) return {};
  const std::map<TextLine, std::string> mine = ParseText(*asked_text);
  const std::map<TextLine, std::string> others = ParseText(*stored_text);
  std::map<TextLine, std::string> all = mine;
  all.insert(others.begin(), others.end());
  const auto value = [](const auto& values, const TextLine& line) {
    const auto found = values.find(line);
    return found == values.end() ? std::string("none") : found->second;
  };
  std::vector<RequestDifference> differences;
  size_t further = 0;
  for (const auto& [line, unused] : all) {
    const auto& [is_file, name] = line;
    RequestDifference one{fmt::format("toolchain's {}{}", is_file ? "file " : "", name),
                          value(mine, line), value(others, line)};
    if (one.asked == one.stored) continue;
    if (differences.size() < limits::kToolchainDifferencesMax) {
      differences.push_back(std::move(one));
    } else {
      ++further;
    }
  }
  if (further > 0) {
    const std::string count = fmt::format("{} more that differ", further);
    differences.push_back({"toolchain's files", count, count});
  }
  return differences;
}

}  // namespace kiln
