#include "daemon/toolchain/native_examiner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/toolchain/describe_program.h"
#include "daemon/toolchain/description.h"
#include "daemon/toolchain/known_bad.h"
#include "daemon/toolchain/toolchain_files.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

absl::Status AddFile(const std::string& path, std::vector<ToolchainFile>& files) {
  KILN_ASSIGN_OR_RETURN(ToolchainFile file, InspectFile(path));
  files.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status AddHeaders(const std::string& directory, FileListing& listing) {
  const auto every = [](std::string_view) { return true; };
  KILN_ASSIGN_OR_RETURN(FileListing beneath, ListFilesBeneath(directory, every));
  for (ToolchainFile& file : beneath.files) {
    file.path = fmt::format("{}/{}", directory, file.path);
    file.is_header = true;
    listing.files.push_back(std::move(file));
  }
  std::move(beneath.directories.begin(), beneath.directories.end(),
            std::back_inserter(listing.directories));
  return absl::OkStatus();
}

absl::Status CheckHeaders(const NativeToolchain& found, const FileOwners& owners) {
  FileTrust trust(owners);
  const auto every = [](std::string_view) { return true; };
  for (const std::string& directory : found.includes) {
    KILN_RETURN_IF_ERROR(ListFilesBeneath(directory, every, &trust).status());
  }
  return absl::OkStatus();
}

// A file that is in two include directories is listed once.
void SortByPath(std::vector<ToolchainFile>& files) {
  const auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
  std::sort(files.begin(), files.end(), by_path);
  files.erase(std::unique(files.begin(), files.end()), files.end());
}

// All files that decide, by their whole paths.
absl::StatusOr<FileListing> DecidingFiles(const NativeToolchain& found) {
  FileListing listing;
  KILN_RETURN_IF_ERROR(AddFile(found.path, listing.files));
  for (const std::string& library : found.libraries) {
    KILN_RETURN_IF_ERROR(AddFile(library, listing.files));
  }
  for (const std::string& include : found.includes) {
    KILN_RETURN_IF_ERROR(AddHeaders(include, listing));
  }
  SortByPath(listing.files);
  SortByPath(listing.directories);
  return listing;
}

absl::StatusOr<std::shared_ptr<const FileSnapshot>> TakeSnapshot(const NativeToolchain& found) {
  return FileSnapshot::Take({.list = [found] { return DecidingFiles(found); }, .prefix = ""});
}

// Besides the files, how kiln-worker calls NVRTC decides the bytes: the options that it adds, the
// directory that it runs in. Raised by hand with them (nvrtc_compiler.cc), so that what was made
// otherwise is not found any more.
constexpr int kNvrtcCall = 2;

// A header's __FILE__, and with it every assert in it, says where it lies.
std::string Preamble(const NativeToolchain& found) {
  std::string text = fmt::format("kiln-toolchain-1\n{}\ncall {}\n", found.name, kNvrtcCall);
  for (size_t i = 0; i < found.includes.size(); ++i) {
    text += fmt::format("include-{} {}\n", i, found.includes[i]);
  }
  return text;
}

struct LabelledFile {
  std::string label;  // what the fingerprint calls it
  const ToolchainFile* file;
};

// The libraries by their names, and what lies in an include directory as "include-0/cuda_fp16.h",
// once for each directory that it lies in.
std::vector<LabelledFile> Label(const NativeToolchain& found,
                                const std::vector<ToolchainFile>& files) {
  std::vector<LabelledFile> labelled;
  for (const ToolchainFile& file : files) {
    const std::string& path = file.path;
    const auto& libraries = found.libraries;
    if (path == found.path || std::count(libraries.begin(), libraries.end(), path) > 0) {
      labelled.push_back({path.substr(path.rfind('/') + 1), &file});
    }
    for (size_t i = 0; i < found.includes.size(); ++i) {
      const std::string beneath = found.includes[i] + "/";
      if (!path.starts_with(beneath)) continue;
      labelled.push_back({fmt::format("include-{}/{}", i, path.substr(beneath.size())), &file});
    }
  }
  std::sort(labelled.begin(), labelled.end(),
            [](const auto& a, const auto& b) { return a.label < b.label; });
  return labelled;
}

Digest ListingDigest(const NativeToolchain& found, const std::vector<ToolchainFile>& files) {
  // The order of the include directories decides the labels, and is in the preamble.
  std::string lines = fmt::format("{}{}\n", Preamble(found), found.path);
  for (const ToolchainFile& file : files) lines += kiln::ListingDigest(file).Hex();
  return Digest::Of(lines);
}

std::vector<std::string> DescribeArguments(const std::string& program,
                                           const NativeToolchain& found) {
  std::vector<std::string> arguments{program, "--describe",      "--output-fd",
                                     "3",     "--" + found.name, found.path};
  for (const std::string& directory : found.includes) {
    arguments.insert(arguments.end(), {"--include", directory});
  }
  return arguments;
}

absl::StatusOr<Digest> FingerprintFiles(const NativeToolchain& found,
                                        const std::vector<ToolchainFile>& files) {
  if (found.name == "ptxas") return FingerprintFile(files.at(0));
  DigestBuilder builder;
  builder.Update(Preamble(found));
  for (const LabelledFile& each : Label(found, files)) {
    KILN_ASSIGN_OR_RETURN(const Digest digest, FingerprintFile(*each.file));
    builder.Update(fmt::format("{}  {}\n", digest.Hex(), each.label));
  }
  return builder.Finish();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Toolchain>> NativeExaminer::Examine(
    const NativeToolchain& found) {
  KILN_RETURN_IF_ERROR(found.problem);
  KILN_RETURN_IF_ERROR(CheckHeaders(found, owners_));
  KILN_ASSIGN_OR_RETURN(const auto snapshot, TakeSnapshot(found));
  const Digest listing = ListingDigest(found, snapshot->files());
  KILN_ASSIGN_OR_RETURN(const Digest fingerprint, FingerprintOf(found, *snapshot, listing));
  KILN_ASSIGN_OR_RETURN(Toolchain described, Describe(found, fingerprint));
  if (described.name != found.name) {
    return FailedPrecondition("it says that it is {}, not {}", described.name, found.name);
  }
  const std::string_view bad = KnownBad(described.name, described.version, "");
  if (!bad.empty()) return FailedPrecondition("{}", bad);
  auto toolchain = std::make_shared<Toolchain>(std::move(described));
  toolchain->fingerprint = fingerprint;
  toolchain->directory = found.path;
  toolchain->includes = found.includes;
  toolchain->installation = found.installation;
  toolchain->listing = listing;
  toolchain->seal = snapshot;
  return std::shared_ptr<const Toolchain>(std::move(toolchain));
}

absl::StatusOr<Digest> NativeExaminer::FingerprintOf(const NativeToolchain& found,
                                                     const FileSnapshot& snapshot,
                                                     const Digest& listing) {
  if (const auto known = cache_.FindFingerprint(listing)) return *known;
  KILN_ASSIGN_OR_RETURN(const Digest fingerprint, FingerprintFiles(found, snapshot.files()));
  if (const absl::Status same = snapshot.Check(); !same.ok()) {
    return Unavailable("it changed while it was read ({}); it is looked at again soon",
                       Message(same));
  }
  cache_.StoreFingerprint(listing, fingerprint);
  return fingerprint;
}

absl::StatusOr<Toolchain> NativeExaminer::Describe(const NativeToolchain& found,
                                                   const Digest& fingerprint) {
  if (const auto known = cache_.FindDescription(fingerprint, program_.digest)) {
    absl::StatusOr<Toolchain> described = ParseDescription(*known);
    if (described.ok()) return described;
  }
  KILN_ASSIGN_OR_RETURN(
      const std::string text,
      RunDescribe(DescribeArguments(program_.path, found), program_.work_directory, program_.time));
  KILN_ASSIGN_OR_RETURN(Toolchain described, ParseDescription(text));
  cache_.StoreDescription(fingerprint, program_.digest, text);
  return described;
}

}  // namespace kiln
