// The files that make a toolchain what it is.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
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
  bool is_header = false;  // of CUDA C++: FileSnapshot looks at these less often
  friend bool operator==(const ToolchainFile&, const ToolchainFile&) = default;
};

// What one walk found. All paths but those of `files` are whole.
struct FileListing {
  std::vector<ToolchainFile> files;  // sorted by path
  // Where a new file would show: every directory, as it was before it was read, and every link that
  // leads to nothing, with all zero.
  std::vector<ToolchainFile> directories;
  // Files that no fingerprint covers and that must stay as they are: a Triton's interpreter and its
  // pyvenv.cfg. All zero where there is none.
  std::vector<ToolchainFile> others;
};

// Whether a file of the package (its path relative to that) can decide what a compile gives. Left
// out is what no compile reads: bytecode that Python makes (`__pycache__`, `*.pyc`), headers
// (`include/`, `*.h`), static libraries (`*.a`), the profiler (`libproton.so`, `profiler/`,
// `lib/cupti/`), and the tools `cuobjdump`, `nvdisasm` and `FileCheck`. Everything else counts,
// known or not: a file too many costs a compile, one too few a wrong answer.
bool DecidesOutput(std::string_view path);

// The files beneath `root` that `decides` does not leave out, by their paths relative to it. `root`
// ends in no '/'. Symbolic links are followed, since some installers make links of all files. A
// directory of which `decides` leaves out any file is not entered. FAILED_PRECONDITION where there
// are more files than any release has, or where `trust` refuses one: with `trust`, Python's
// bytecode is looked at too, though it is not listed. Blocks as a disk does.
absl::StatusOr<FileListing> ListFilesBeneath(const std::string& root,
                                             const std::function<bool(std::string_view)>& decides,
                                             FileTrust* trust = nullptr);

// Those of `package` that decide output.
absl::StatusOr<FileListing> ListToolchainFiles(const std::string& package,
                                               FileTrust* trust = nullptr);

// One file, wherever it is: `path` as given. FAILED_PRECONDITION where it is none.
absl::StatusOr<ToolchainFile> InspectFile(const std::string& path);

// What a path leads to, a file or a directory; all zero where it leads to nothing. UNAVAILABLE
// where it cannot be looked at.
absl::StatusOr<ToolchainFile> InspectIfThere(const std::string& path);

// Whether what stat says now is what it said of `file`, whatever path it was asked by.
bool IsStill(const ToolchainFile& file, const struct stat& now);

// SHA-256 of a file that has not changed since it was inspected; UNAVAILABLE where it has. Reads no
// more than the file held then.
absl::StatusOr<Digest> FingerprintFile(const ToolchainFile& file);

// A digest of the listing (not of any content): equal listings have equal fingerprints.
Digest ListingDigest(const ToolchainDirectory& toolchain, const std::vector<ToolchainFile>& files);
Digest ListingDigest(const ToolchainFile& file);
// Adds the others of a listing to the digest of its files.
Digest ListingDigest(const Digest& listing, const std::vector<ToolchainFile>& others);

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
