#include "daemon/toolchain/toolchain_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <numeric>
#include <thread>

#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr int kHashThreads = 2;

// Besides the files, what daemon/worker/triton/kiln_triton_worker adds to a request decides the
// bytes: the name that it parses the source under, what it puts back of what stands behind it, that
// it has ptxas loaded at fixed addresses and say what it uses, that each compile has a process of
// its own. Raised by hand with these, here and in client/python/kiln/_plugin/identity.py, so that
// what was made otherwise is not found any more.
// (kNvrtcCall is the same for NVRTC.)
constexpr int kTritonCall = 3;

std::string Preamble(const ToolchainDirectory& toolchain) {
  return fmt::format("kiln-toolchain-{}\npython {}\ntriton {}\n", kTritonCall, toolchain.python,
                     toolchain.version.empty() ? "unknown" : toolchain.version);
}

bool HasComponent(std::string_view path, std::string_view component) {
  return ("/" + std::string(path)).find("/" + std::string(component) + "/") != std::string::npos;
}

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

ToolchainFile MakeFile(const std::string& path, const struct stat& info) {
  ToolchainFile file;
  file.path = path;
  file.size_bytes = static_cast<uint64_t>(info.st_size);
  file.modified_ns = Nanoseconds(info.st_mtim);
  file.changed_ns = Nanoseconds(info.st_ctim);
  file.inode = info.st_ino;
  file.device = info.st_dev;
  return file;
}

bool IsSame(const ToolchainFile& file, const struct stat& now) {
  return static_cast<uint64_t>(now.st_size) == file.size_bytes &&
         Nanoseconds(now.st_mtim) == file.modified_ns &&
         Nanoseconds(now.st_ctim) == file.changed_ns && now.st_ino == file.inode &&
         now.st_dev == file.device;
}

// Adds one entry of a walk. `relative` is its path, relative to the root of the walk. Returns
// whether the walk goes into it.
absl::StatusOr<bool> AddEntry(const fs::directory_entry& entry, std::string_view relative,
                              const std::function<bool(std::string_view)>& decides,
                              FileTrust* trust, FileListing& listing) {
  const std::string full = entry.path().string();
  struct stat info {};
  if (::stat(full.c_str(), &info) != 0) {
    // Removed just now, or a link that leads nowhere: no import and no #include opens it either.
    if (!LeadsToNothing(errno)) return ErrnoStatus(errno, fmt::format("stat {}", full));
    listing.directories.push_back({full});
    return false;
  }
  if (trust != nullptr) KILN_RETURN_IF_ERROR(trust->Check(full, info));
  if (S_ISDIR(info.st_mode)) {
    const bool may_hold_some = decides(fmt::format("{}/x", relative));
    if (may_hold_some) listing.directories.push_back(MakeFile(full, info));
    return may_hold_some || (trust != nullptr && entry.path().filename() == "__pycache__");
  }
  if (!S_ISREG(info.st_mode) || !decides(relative)) return false;
  if (relative.find('\n') != std::string_view::npos) {
    return FailedPrecondition("{} has a newline in its name", full);
  }
  listing.files.push_back(MakeFile(std::string(relative), info));
  return false;
}

std::string ListingLine(const ToolchainFile& file) {
  return fmt::format("{} {} {} {} {} {}\n", file.size_bytes, file.modified_ns, file.changed_ns,
                     file.inode, file.device, file.path);
}

absl::Status ChangedMeanwhile() {
  return Unavailable("it changed while it was read; it is looked at again soon");
}

// Opens a file that was inspected. Does not wait where a pipe has taken its place.
absl::StatusOr<UniqueFd> OpenInspected(const ToolchainFile& file, const std::string& path) {
  UniqueFd opened(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!opened && (errno == ENOENT || errno == ENOTDIR)) return ChangedMeanwhile();
  if (!opened) return ErrnoStatus(errno, fmt::format("open {}", path));
  struct stat now {};
  if (::fstat(opened.get(), &now) != 0) return CouldNotLook(errno, path);
  if (!IsStill(file, now)) return ChangedMeanwhile();
  return opened;
}

absl::StatusOr<Digest> HashFile(const ToolchainFile& file, const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const UniqueFd opened, OpenInspected(file, path));
  DigestBuilder builder;
  std::string buffer(limits::kMiB, '\0');
  for (uint64_t bytes = 0; bytes <= file.size_bytes;) {
    const ssize_t got = ::read(opened.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, fmt::format("read {}", path));
    if (got == 0 && bytes == file.size_bytes) return builder.Finish();
    if (got == 0) break;
    builder.Update(std::string_view(buffer).substr(0, static_cast<size_t>(got)));
    bytes += static_cast<size_t>(got);
  }
  return ChangedMeanwhile();
}

// One file of a release is most of its bytes: with the largest first, one thread takes that one and
// the other all the rest.
std::vector<size_t> LargestFirst(const std::vector<ToolchainFile>& files) {
  std::vector<size_t> order(files.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return files[a].size_bytes > files[b].size_bytes; });
  return order;
}

std::vector<absl::StatusOr<Digest>> HashFiles(const std::string& package,
                                              const std::vector<ToolchainFile>& files) {
  const std::vector<size_t> order = LargestFirst(files);
  std::vector<absl::StatusOr<Digest>> digests(files.size(), absl::StatusOr<Digest>(Digest()));
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < order.size(); i = next++) {
      const ToolchainFile& file = files[order[i]];
      digests[order[i]] = HashFile(file, package + "/" + file.path);
    }
  };
  std::array<std::thread, kHashThreads> threads;
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  return digests;
}

}  // namespace

bool DecidesOutput(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const auto ends_with = [name](std::string_view end) {
    return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
  };
  for (const std::string_view folder : {"__pycache__", "include", "profiler", "lib/cupti"}) {
    if (HasComponent(path, folder)) return false;
  }
  for (const std::string_view tool : {"cuobjdump", "nvdisasm", "FileCheck", "libproton.so"}) {
    if (name == tool) return false;
  }
  return !ends_with(".pyc") && !ends_with(".a") && !ends_with(".h");
}

absl::StatusOr<FileListing> ListFilesBeneath(const std::string& root,
                                             const std::function<bool(std::string_view)>& decides,
                                             FileTrust* trust) {
  FileListing listing;
  struct stat info {};
  // Each directory before it is read: what is added from then on shows in it.
  if (::stat(root.c_str(), &info) != 0) return ErrnoStatus(errno, fmt::format("stat {}", root));
  if (trust != nullptr) KILN_RETURN_IF_ERROR(trust->Check(root, info));
  listing.directories.push_back(MakeFile(root, info));
  std::error_code error;
  size_t visited = 0;
  fs::recursive_directory_iterator walk(root, fs::directory_options::follow_directory_symlink,
                                        error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    if (walk.depth() > static_cast<int>(limits::kToolchainDepthMax) ||
        ++visited > limits::kToolchainFilesMax) {
      return FailedPrecondition("{} has more files or levels of directories than any release",
                                root);
    }
    const std::string path = walk->path().string();
    const std::string_view relative = std::string_view(path).substr(root.size() + 1);
    KILN_ASSIGN_OR_RETURN(const bool goes_on, AddEntry(*walk, relative, decides, trust, listing));
    if (!goes_on) walk.disable_recursion_pending();
  }
  if (error) return ErrnoStatus(error.value(), fmt::format("list {}", root));
  std::sort(listing.files.begin(), listing.files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return listing;
}

absl::StatusOr<FileListing> ListToolchainFiles(const std::string& package, FileTrust* trust) {
  return ListFilesBeneath(package, DecidesOutput, trust);
}

Digest ListingDigest(const ToolchainDirectory& toolchain, const std::vector<ToolchainFile>& files) {
  std::string text = fmt::format("{}{}\n", Preamble(toolchain), toolchain.package);
  for (const ToolchainFile& file : files) text += ListingLine(file);
  return Digest::Of(text);
}

Digest ListingDigest(const ToolchainFile& file) { return Digest::Of(ListingLine(file)); }

Digest ListingDigest(const Digest& listing, const std::vector<ToolchainFile>& others) {
  std::string text = listing.Hex() + "\n";
  for (const ToolchainFile& file : others) text += ListingLine(file);
  return Digest::Of(text);
}

absl::StatusOr<ToolchainFile> InspectFile(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, fmt::format("stat {}", path));
  if (!S_ISREG(info.st_mode)) return FailedPrecondition("{} is not a file", path);
  return MakeFile(path, info);
}

absl::StatusOr<ToolchainFile> InspectIfThere(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return MakeFile(path, info);
  if (LeadsToNothing(errno)) return ToolchainFile{path};
  return CouldNotLook(errno, path);
}

bool IsStill(const ToolchainFile& file, const struct stat& now) {
  return S_ISREG(now.st_mode) && IsSame(file, now);
}

absl::StatusOr<Digest> FingerprintFile(const ToolchainFile& file) {
  KILN_ASSIGN_OR_RETURN(const Digest digest, HashFile(file, file.path));
  struct stat now {};
  if (::stat(file.path.c_str(), &now) != 0 || !IsStill(file, now)) return ChangedMeanwhile();
  return digest;
}

absl::StatusOr<Digest> Fingerprint(const ToolchainDirectory& toolchain,
                                   const std::vector<ToolchainFile>& files) {
  const auto digests = HashFiles(toolchain.package, files);
  DigestBuilder builder;
  builder.Update(Preamble(toolchain));
  for (size_t i = 0; i < files.size(); ++i) {
    KILN_RETURN_IF_ERROR(digests[i].status());
    builder.Update(fmt::format("{}  {}\n", digests[i]->Hex(), files[i].path));
  }
  KILN_ASSIGN_OR_RETURN(const FileListing now, ListToolchainFiles(toolchain.package));
  if (now.files != files) {
    return Unavailable("its files changed while they were read; they are looked at again soon");
  }
  return builder.Finish();
}

}  // namespace kiln
