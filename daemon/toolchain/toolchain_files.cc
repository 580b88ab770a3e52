#include "daemon/toolchain/toolchain_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Besides the files, what daemon/worker/triton/kiln_triton_worker adds to a request decides the
// bytes: the name that it parses the source under, what it puts back of what stands behind it, that
// it has ptxas loaded at fixed addresses, find no file with stat and say what it uses, that each
// compile has a process of its own. Raised by hand with these, here and in
// client/python/kiln/_plugin/identity.py, so that what was made otherwise is not found any more.
constexpr int kTritonCall = 4;
// Numbers what kiln-worker adds to a call of NVRTC: options, the directory that it runs in
// (nvrtc_compiler.cc), and what it hears of files (undated_files.cc).
constexpr int kNvrtcCall = 3;
// Numbers what kiln-worker adds to a call of clang, llvm-spirv and spirv-val (clang_compiler.cc).
constexpr int kClangCall = 1;

std::string Preamble(const FoundToolchain& found) {
  if (found.name == kTriton) {
    return fmt::format("kiln-toolchain-{}\npython {}\ntriton {}\n", kTritonCall, found.python,
                       found.version.empty() ? "unknown" : found.version);
  }
  // A header's __FILE__, and with it every assert in it, says where it lies.
  std::string text = fmt::format("kiln-toolchain-1\n{}\ncall {}\n", found.name,
                                 found.name == kClang ? kClangCall : kNvrtcCall);
  for (size_t i = 0; i < found.includes.size(); ++i) {
    text += fmt::format("include-{} {}\n", i, found.includes[i]);
  }
  return text;
}

bool HasComponent(std::string_view path, std::string_view component) {
  return ("/" + std::string(path)).find("/" + std::string(component) + "/") != std::string::npos;
}

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

FileIdentity IdentityOf(const struct stat& info) {
  return {static_cast<uint64_t>(info.st_size), Nanoseconds(info.st_mtim), Nanoseconds(info.st_ctim),
          info.st_ino, info.st_dev};
}

// Walks through the files beneath a directory.
class Walk {
 public:
  // `label` stands in front of each path relative to `root`, which ends in no '/'. Files and
  // directories that `decides` leaves out are checked and not listed.
  Walk(std::string root, std::string label, bool (*decides)(std::string_view), FileTrust& trust,
       FileListing& listing)
      : root_(std::move(root)),
        label_(std::move(label)),
        decides_(decides),
        trust_(trust),
        listing_(listing) {}

  absl::Status Run() {
    struct stat info {};
    // Each directory before it is read: what is added from then on shows in it.
    if (::stat(root_.c_str(), &info) != 0) return ErrnoStatus(errno, fmt::format("stat {}", root_));
    KILN_RETURN_IF_ERROR(trust_.Check(root_, info));
    listing_.directories.push_back({root_, IdentityOf(info), ""});
    std::error_code error;
    size_t visited = 0;
    fs::recursive_directory_iterator walk(root_, fs::directory_options::follow_directory_symlink,
                                          error);
    for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
      if (walk.depth() > static_cast<int>(limits::kToolchainDepthMax) ||
          ++visited > limits::kToolchainFilesMax) {
        return FailedPrecondition("{} has more files or levels of directories than any release",
                                  root_);
      }
      KILN_ASSIGN_OR_RETURN(const bool goes_on, Add(walk->path().string()));
      if (!goes_on) walk.disable_recursion_pending();
    }
    return error ? ErrnoStatus(error.value(), fmt::format("list {}", root_)) : absl::OkStatus();
  }

 private:
  // Whether the walk goes into it.
  absl::StatusOr<bool> Add(const std::string& path) {
    const std::string relative = path.substr(root_.size() + 1);
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
      // Removed just now, or a link that leads nowhere: no import and no #include opens it either.
      if (!LeadsToNothing(errno)) return ErrnoStatus(errno, fmt::format("stat {}", path));
      listing_.directories.push_back({path, {}, ""});
      return false;
    }
    KILN_RETURN_IF_ERROR(trust_.Check(path, info));
    if (S_ISDIR(info.st_mode)) {
      const bool may_hold_some = decides_(relative + "/x");
      if (may_hold_some) listing_.directories.push_back({path, IdentityOf(info), ""});
      return may_hold_some || path.ends_with("/__pycache__");
    }
    if (!S_ISREG(info.st_mode) || !decides_(relative)) return false;
    if (relative.find('\n') != std::string::npos) {
      return FailedPrecondition("{} has a newline in its name", path);
    }
    listing_.files.push_back({path, IdentityOf(info), label_ + relative});
    return false;
  }

  const std::string root_;
  const std::string label_;
  bool (*const decides_)(std::string_view);
  FileTrust& trust_;
  FileListing& listing_;
};

absl::Status AddFile(const std::string& path, std::string_view label, FileListing& listing) {
  KILN_ASSIGN_OR_RETURN(const FileIdentity identity, Identify(path));
  listing.files.push_back({path, identity, std::string(label)});
  return absl::OkStatus();
}

absl::Status AddTriton(const FoundToolchain& found, FileTrust& trust, FileListing& listing) {
  KILN_RETURN_IF_ERROR(Walk(found.package, "", DecidesOutput, trust, listing).Run());
  KILN_RETURN_IF_ERROR(AddFile(found.interpreter, "", listing));
  return AddFile(found.path + "/pyvenv.cfg", "", listing);
}

// The libraries by their names, and what lies in an include directory as "include-0/cuda_fp16.h",
// once for each directory that it lies in.
absl::Status AddNative(const FoundToolchain& found, FileTrust& trust, FileListing& listing) {
  KILN_RETURN_IF_ERROR(AddFile(found.path, fs::path(found.path).filename().native(), listing));
  for (const std::string& library : found.libraries) {
    KILN_RETURN_IF_ERROR(AddFile(library, fs::path(library).filename().native(), listing));
  }
  const size_t libraries = listing.files.size();
  const auto every = [](std::string_view) { return true; };
  for (size_t i = 0; i < found.includes.size(); ++i) {
    const std::string label = fmt::format("include-{}/", i);
    KILN_RETURN_IF_ERROR(Walk(found.includes[i], label, every, trust, listing).Run());
  }
  for (size_t i = libraries; i < listing.files.size(); ++i) listing.files[i].is_header = true;
  // One include directory may lie in another.
  auto& directories = listing.directories;
  std::sort(directories.begin(), directories.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  directories.erase(std::unique(directories.begin(), directories.end()), directories.end());
  return absl::OkStatus();
}

absl::Status ChangedMeanwhile() {
  return Unavailable("its files changed while they were read; they are looked at again soon");
}

// Whether what was opened is the file that was listed, and one that can be read to its end.
bool IsStill(const ToolchainFile& file, const UniqueFd& opened) {
  struct stat now {};
  return ::fstat(opened.get(), &now) == 0 && S_ISREG(now.st_mode) &&
         IdentityOf(now) == file.identity;
}

// Does not wait where a pipe has taken the file's place, and reads no more than the file held.
absl::StatusOr<Digest> HashFile(const ToolchainFile& file) {
  const UniqueFd opened(::open(file.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!opened && (errno == ENOENT || errno == ENOTDIR)) return ChangedMeanwhile();
  if (!opened) return ErrnoStatus(errno, fmt::format("open {}", file.path));
  if (!IsStill(file, opened)) return ChangedMeanwhile();
  DigestBuilder builder;
  std::string buffer(limits::kMiB, '\0');
  for (uint64_t bytes = 0; bytes <= file.identity.size_bytes;) {
    const ssize_t got = ::read(opened.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, fmt::format("read {}", file.path));
    if (got == 0) break;
    builder.Update(std::string_view(buffer).substr(0, static_cast<size_t>(got)));
    bytes += static_cast<size_t>(got);
  }
  if (!IsStill(file, opened)) return ChangedMeanwhile();
  return builder.Finish();
}

}  // namespace

absl::StatusOr<FileIdentity> Identify(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return IdentityOf(info);
  if (LeadsToNothing(errno)) return FileIdentity();
  return CouldNotLook(errno, path);
}

bool DecidesOutput(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::string_view folder : {"__pycache__", "include", "profiler", "lib/cupti"}) {
    if (HasComponent(path, folder)) return false;
  }
  for (const std::string_view tool : {"cuobjdump", "nvdisasm", "FileCheck", "libproton.so"}) {
    if (name == tool) return false;
  }
  return !name.ends_with(".a") && !name.ends_with(".h");
}

absl::StatusOr<FileListing> ListFiles(const FoundToolchain& found, const FileOwners& owners) {
  FileTrust trust(owners);
  FileListing listing;
  KILN_RETURN_IF_ERROR(found.name == kTriton ? AddTriton(found, trust, listing)
                                             : AddNative(found, trust, listing));
  std::stable_sort(listing.files.begin(), listing.files.end(),
                   [](const auto& a, const auto& b) { return a.label < b.label; });
  return listing;
}

Digest ListingDigest(const FoundToolchain& found, const std::vector<ToolchainFile>& files) {
  std::string text = fmt::format("{}{}\n", Preamble(found), found.path);
  for (const auto& [path, identity, label, is_header] : files) {
    text += fmt::format("{} {} {} {} {} {} {}\n", identity.size_bytes, identity.modified_ns,
                        identity.changed_ns, identity.inode, identity.device, label, path);
  }
  return Digest::Of(text);
}

absl::StatusOr<ToolchainFingerprint> Fingerprint(const FoundToolchain& found,
                                                 const std::vector<ToolchainFile>& files) {
  std::string text = Preamble(found);
  for (const ToolchainFile& file : files) {
    if (file.label.empty()) continue;
    KILN_ASSIGN_OR_RETURN(const Digest digest, HashFile(file));
    if (found.name == kPtxas) return ToolchainFingerprint{digest, ""};
    text += fmt::format("{}  {}\n", digest.Hex(), file.label);
  }
  const Digest digest = Digest::Of(text);
  return ToolchainFingerprint{digest, std::move(text)};
}

}  // namespace kiln
