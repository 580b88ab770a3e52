// The files that make a toolchain what it is.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/toolchain/ownership_check.h"
#include "daemon/toolchain/toolchain_directory.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

struct ToolchainFile {
  std::string path;  // relative to the package, with '/'
  uint64_t size_bytes = 0;
  // What tells a changed file from an unchanged one without reading it.
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint64_t inode = 0;
  uint64_t device = 0;
  friend bool operator==(const ToolchainFile&, const ToolchainFile&) = default;
};

// What one walk found.
struct FileListing {
  std::vector<ToolchainFile> files;  // sorted by path
  // Where another one would show: every directory, as it was before it was read, and every link
  // that leads to nothing yet, with all zero. Each by its whole path.
  std::vector<ToolchainFile> places;
  // What has to be as it was though no fingerprint covers it, since it decides whose code runs (the
  // way to an interpreter) or, among files that may be anybody's, which of them are read: every
  // directory, and the way of every link. Each by its whole path, a link as itself.
  std::vector<ToolchainFile> beside;
};

// Whether a file of the package (its path relative to that) can decide what a compile gives. Left
// out is what no compile reads: bytecode that Python makes (`__pycache__`, `*.pyc`), headers
// (`include/`, `*.h`), static libraries (`*.a`), the profiler (`libproton.so`, `profiler/`,
// `lib/cupti/`), and the tools `cuobjdump`, `nvdisasm` and `FileCheck`. Everything else counts,
// known or not: a file too many costs a compile, one too few a wrong answer.
bool DecidesOutput(std::string_view path);

// The files beneath `root`, which ends in no '/', that `decides` does not leave out, by their paths
// relative to it.
// Symbolic links are followed, since some installers make links of all files. A directory of which
// it leaves out any file is not entered. FAILED_PRECONDITION where there are more than any release
// has, or `trust` has something against one that is met: Python's bytecode, which is not listed, is
// looked at as well. Without one they may be anybody's: what is beside them is listed then. Blocks
// as a disk does.
absl::StatusOr<FileListing> ListFilesBeneath(const std::string& root,
                                             const std::function<bool(std::string_view)>& decides,
                                             std::optional<FileTrust> trust);

// Those of `package` that decide output.
absl::StatusOr<FileListing> ListToolchainFiles(const std::string& package, FileTrust trust);

// One file, wherever it is: `path` as given. FAILED_PRECONDITION where it is none.
absl::StatusOr<ToolchainFile> InspectFile(const std::string& path);

// The links on the way to what `path` leads to, and that; where the way ends before, with all zero
// what is not there.
// UNAVAILABLE where it could not be looked at.
absl::StatusOr<std::vector<ToolchainFile>> InspectWay(const std::string& path);

// Whether what stat says now is what it said of `file`, whatever path it was asked by.
bool IsStill(const ToolchainFile& file, const struct stat& now);

// Whether the path of one of a listing's places leads to the same as then, be it nothing.
bool IsStillSuch(const ToolchainFile& place);

// Whether one of those beside is as it was, be it nothing; an error where it cannot be looked at.
absl::StatusOr<bool> IsStillBeside(const ToolchainFile& file);

// SHA-256 of a file that has not changed since it was inspected; UNAVAILABLE where it has. Reads no
// more than it was then, and waits for nobody but the disk. FAILED_PRECONDITION where it is one
// that the kernel makes up (/proc, /sys).
absl::StatusOr<Digest> FingerprintFile(const ToolchainFile& file);

// A digest of the listing (not of any content): equal listings have equal fingerprints.
Digest ListingDigest(const ToolchainDirectory& toolchain, const std::vector<ToolchainFile>& files);
Digest ListingDigest(const ToolchainFile& file);
// The same of all that is known of a toolchain: `listing` is that of its files.
Digest ListingDigest(const Digest& listing, const std::vector<ToolchainFile>& beside);

// What names a toolchain: SHA-256 over the text
//
//   kiln-toolchain-1\n
//   python <major>.<minor>\n
//   triton <version of the installed distribution, or "unknown">\n
//   <64 hex digits of the file's SHA-256><space><space><path>\n      for each file, sorted by path
//
// The number in the first line stands for how kiln_triton_worker calls Triton. So `sha256sum`
// prints all but the first three lines. Paths are relative to the package: where it is installed
// decides nothing. Reads every file, on two threads: about half a second for a release. UNAVAILABLE
// where `files` is no longer what is there: whoever installs it has not finished.
absl::StatusOr<Digest> Fingerprint(const ToolchainDirectory& toolchain,
                                   const std::vector<ToolchainFile>& files);

}  // namespace kiln
