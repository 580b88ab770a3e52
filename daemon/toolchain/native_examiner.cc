#include "daemon/toolchain/native_examiner.h"

#include <algorithm>
#include <filesystem>

#include "daemon/toolchain/describe_program.h"
#include "daemon/toolchain/description.h"
#include "daemon/toolchain/known_bad.h"
#include "daemon/toolchain/toolchain_files.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

struct DecidingFile {
  std::string label;  // what the fingerprint calls it: where it is installed decides nothing
  ToolchainFile file;
};

absl::Status AddFile(const std::string& label, const std::string& path,
                     std::vector<DecidingFile>& files) {
  KILN_ASSIGN_OR_RETURN(ToolchainFile file, InspectFile(path));
  files.push_back({label, std::move(file)});
  return absl::OkStatus();
}

// All files beneath an include directory; "include-0/cuda_fp16.h".
absl::Status AddHeaders(const std::string& directory, size_t index,
                        std::vector<DecidingFile>& files) {
  std::error_code error;
  fs::recursive_directory_iterator walk(directory, fs::directory_options::follow_directory_symlink,
                                        error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    if (walk.depth() > static_cast<int>(limits::kToolchainDepthMax) ||
        files.size() > limits::kToolchainFilesMax) {
      return FailedPrecondition("{} has more files or levels of directories than any release",
                                directory);
    }
    if (!walk->is_regular_file(error)) continue;
    const std::string path = walk->path().string();
    KILN_RETURN_IF_ERROR(AddFile(
        fmt::format("include-{}/{}", index, path.substr(directory.size() + 1)), path, files));
  }
  return error ? ErrnoStatus(error.value(), fmt::format("list {}", directory)) : absl::OkStatus();
}

absl::StatusOr<std::vector<DecidingFile>> DecidingFiles(const NativeToolchain& found) {
  std::vector<DecidingFile> files;
  const auto name = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  KILN_RETURN_IF_ERROR(AddFile(name(found.path), found.path, files));
  for (const std::string& library : found.libraries) {
    KILN_RETURN_IF_ERROR(AddFile(name(library), library, files));
  }
  for (size_t i = 0; i < found.includes.size(); ++i) {
    KILN_RETURN_IF_ERROR(AddHeaders(found.includes[i], i, files));
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.label < b.label; });
  return files;
}

absl::StatusOr<Digest> FingerprintFiles(const std::string& name,
                                        const std::vector<DecidingFile>& files) {
  if (name == "ptxas") return FingerprintFile(files.at(0).file);
  DigestBuilder builder;
  builder.Update(fmt::format("kiln-toolchain-1\n{}\n", name));
  for (const DecidingFile& each : files) {
    KILN_ASSIGN_OR_RETURN(const Digest digest, FingerprintFile(each.file));
    builder.Update(fmt::format("{}  {}\n", digest.Hex(), each.label));
  }
  return builder.Finish();
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

}  // namespace

absl::StatusOr<std::shared_ptr<const Toolchain>> NativeExaminer::Examine(
    const NativeToolchain& found) {
  if (!found.problem.empty()) return FailedPrecondition("{}", found.problem);
  KILN_ASSIGN_OR_RETURN(const Digest fingerprint, FingerprintOf(found));
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
  return std::shared_ptr<const Toolchain>(std::move(toolchain));
}

absl::StatusOr<Digest> NativeExaminer::FingerprintOf(const NativeToolchain& found) {
  KILN_ASSIGN_OR_RETURN(const std::vector<DecidingFile> files, DecidingFiles(found));
  std::string lines = found.name;
  for (const DecidingFile& file : files) lines += ListingDigest(file.file).Hex() + file.label;
  const Digest listing = Digest::Of(lines);
  if (const auto known = cache_.FindFingerprint(listing)) return *known;
  KILN_ASSIGN_OR_RETURN(const Digest fingerprint, FingerprintFiles(found.name, files));
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
