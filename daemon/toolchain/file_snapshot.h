// Remembers what the file system says of a toolchain's files, and compares.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/kernel/toolchain.h"
#include "daemon/toolchain/toolchain_files.h"
#include "storage/base/clock.h"
#include "storage/base/mutex.h"

namespace kiln {

// How often an NVRTC's headers are compared.
inline constexpr auto kHeaderLookTime = std::chrono::seconds(1);

// Compares each file with its identity in the snapshot, and each directory. Lists the files again
// only where a directory has changed. CUDA's 2,000 headers are compared at most once a second,
// everything else at each check: a check takes less than a millisecond.
//
// Not noticed: a header that is written over in place within a second before a compile ends, where
// another compile had the headers compared in that second. Package managers put a new file in the
// place of the old one, which the directory shows at once.
// docs/adr/0054-toolchains-are-immutable-while-they-are-served.md has the rest.
class FileSnapshot final : public ToolchainSeal {
 public:
  using List = std::function<absl::StatusOr<FileListing>()>;

  // Waits until another change of a file would have another time. Blocks as a disk does. `clock`
  // outlives the snapshot.
  static absl::StatusOr<std::shared_ptr<const FileSnapshot>> Take(
      List list, const Clock& clock = SystemClock());

  absl::Status Check() const override;

  const std::vector<ToolchainFile>& files() const { return files_; }

 private:
  using Directories = std::vector<ToolchainFile>;

  FileSnapshot(List list, FileListing listing, const Clock& clock);

  absl::Status CheckFiles(bool are_headers) const;
  absl::Status CheckHeaders() const;
  absl::Status CheckDirectories() const;
  void Keep(Directories directories) const;

  const List list_;
  const Clock& clock_;
  const std::vector<ToolchainFile> files_;
  mutable Mutex mutex_;
  mutable SteadyTime headers_compared_ KILN_GUARDED_BY(mutex_);
  // As they were when the files were listed last; null where these have to be listed once more.
  mutable std::shared_ptr<const Directories> directories_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
