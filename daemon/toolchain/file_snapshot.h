// Remembers what the file system says of a toolchain's files, and compares.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/kernel/toolchain.h"
#include "daemon/toolchain/toolchain_files.h"
#include "storage/base/clock.h"

namespace kiln {

// How often an NVRTC's headers are compared.
inline constexpr auto kHeaderLookTime = std::chrono::seconds(1);

// Which files a snapshot covers.
struct SnapshotSource {
  std::function<absl::StatusOr<FileListing>()> list;
  std::string prefix;  // stands in front of each path of FileListing::files
};

// Compares each file's size, times, inode and device with those of the snapshot, and each
// directory's. Lists the files again only where a directory has changed. CUDA's 2,000 headers are
// compared at most once a second, everything else at each check: a check takes 0.2 ms.
//
// Not noticed: a header that is written over in place within a second before a compile ends, where
// another compile had the headers compared in that second. Package managers put a new file in the
// place of the old one, which the directory shows at once.
// docs/adr/0054-toolchains-are-immutable-while-they-are-served.md has the rest.
class FileSnapshot final : public ToolchainSeal {
 public:
  // Waits until another change of a file would have another time. Blocks as a disk does. `clock`
  // outlives the snapshot.
  static absl::StatusOr<std::shared_ptr<const FileSnapshot>> Take(
      SnapshotSource source, const Clock& clock = SystemClock());

  absl::Status Check() const override;

  const std::vector<ToolchainFile>& files() const { return files_; }
  const std::vector<ToolchainFile>& others() const { return others_; }

 private:
  using Directories = std::vector<ToolchainFile>;

  FileSnapshot(SnapshotSource source, FileListing listing, const Clock& clock);

  // The files of one directory, found faster from there than by their whole paths.
  struct Holder {
    std::string path;
    std::vector<const ToolchainFile*> files;
  };

  std::vector<Holder> GroupFiles(bool are_headers) const;
  bool AreHeadersDue() const;
  absl::Status CheckFiles(const std::vector<Holder>& holders) const;
  absl::Status CheckHeaders() const;
  absl::Status CheckOthers() const;
  absl::Status CheckDirectories() const;
  void Keep(Directories directories) const;

  const SnapshotSource source_;
  const Clock& clock_;
  const std::vector<ToolchainFile> files_;
  const std::vector<ToolchainFile> others_;
  const std::vector<Holder> holders_;         // into files_
  const std::vector<Holder> header_holders_;  // into files_
  mutable std::mutex mutex_;
  mutable SteadyTime headers_compared_;
  // As they were when the files were listed last; null where these have to be listed once more.
  mutable std::shared_ptr<const Directories> directories_;
};

}  // namespace kiln
