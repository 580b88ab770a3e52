// The files that make a toolchain what it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/toolchain/found_toolchain.h"
#include "daemon/toolchain/ownership_check.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// What tells a changed file from an unchanged one without reading it. All zero: it is not there.
struct FileIdentity {
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint64_t inode = 0;
  uint64_t device = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// The identity of what `path` leads to, a file or a directory. UNAVAILABLE where it cannot be
// looked at.
absl::StatusOr<FileIdentity> Identify(const std::string& path);

struct ToolchainFile {
  std::string path;
  FileIdentity identity;
  // What the fingerprint calls it; "": no fingerprint covers it, but it must stay as it is.
  std::string label;
  bool is_header = false;  // of CUDA C++: FileSnapshot looks at these less often
  friend bool operator==(const ToolchainFile&, const ToolchainFile&) = default;
};

struct FileListing {
  std::vector<ToolchainFile> files;  // sorted by label
  // Where a new file would show: every directory, as it was before it was read, and every link that
  // leads to nothing.
  std::vector<ToolchainFile> directories;
};

// Whether a file of Triton's package (its path relative to that) can decide what a compile gives.
// Left out is what no compile reads: bytecode that Python makes (`__pycache__`), headers
// (`include/`, `*.h`), static libraries (`*.a`), the profiler (`libproton.so`, `profiler/`,
// `lib/cupti/`), and the tools `cuobjdump`, `nvdisasm` and `FileCheck`. Everything else counts,
// known or not: a file too many costs a compile, one too few a wrong answer.
bool DecidesOutput(std::string_view path);

// A Triton's files that decide output, its interpreter and its pyvenv.cfg; a ptxas; an NVRTC, its
// libraries and all its headers; a clang, the programs beside it, what these load and its headers.
// Symbolic links are followed, since some installers make links of all files. FAILED_PRECONDITION
// where there are more files than any release has, or where others than `owners` may write to one
// of them, bytecode included. Blocks as a disk does.
absl::StatusOr<FileListing> ListFiles(const FoundToolchain& found, const FileOwners& owners);

// A digest of the listing (not of any content): equal listings have equal fingerprints.
Digest ListingDigest(const FoundToolchain& found, const std::vector<ToolchainFile>& files);

struct ToolchainFingerprint {
  Digest digest;
  std::string text;  // what it is the digest of; "" for a ptxas
};

// What names a toolchain. That of a ptxas is the SHA-256 of its file, that of the others is the
// SHA-256 over a text (docs/toolchains.md):
//
//   kiln-toolchain-4\n
//   python <major>.<minor>\n
//   triton <version of the installed distribution, or "unknown">\n
//   <64 hex digits of the file's SHA-256><space><space><label>\n     for each file
//
// The number in the first line stands for how kiln_triton_worker calls Triton. A Triton's labels
// are paths relative to its package: where it is installed decides nothing. Reads every file, for a
// release some 700 MB. UNAVAILABLE where a file is no longer what it was: whoever installs it has
// not finished.
absl::StatusOr<ToolchainFingerprint> Fingerprint(const FoundToolchain& found,
                                                 const std::vector<ToolchainFile>& files);

}  // namespace kiln
