// What a file system says of files, kept, so that it shows when something is done to them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/kernel/toolchain.h"
#include "daemon/toolchain/toolchain_files.h"
#include "storage/base/clock.h"

namespace kiln {

// Which files, as a toolchain lists them.
struct SealedFiles {
  // Each file with its path as the lister gives it, to which `prefix` is put in front.
  std::function<absl::StatusOr<FileListing>()> list;
  std::string prefix;
};

// Compares each file's size, times, inode and device with what they were. The places where new ones
// would show are looked at as well, and only where one of them has changed are the files listed
// again, and with them the places: 0.3 ms for a Triton, 2 ms for an NVRTC with its 2,000 headers.
//
// What it cannot see: files that are changed with their times set back by whoever may set the
// clock, and a directory above all of these that is exchanged for another and exchanged back.
class FileSnapshot final : public ToolchainSeal {
 public:
  // The files as they are now, and long enough after the last change that the next one has another
  // time. UNAVAILABLE where something is done to what is beside them all the time, of which nothing
  // but the time may show. Blocks as a disk does. `clock` outlives the seal.
  static absl::StatusOr<std::shared_ptr<const FileSnapshot>> Take(
      SealedFiles what, const Clock& clock = SystemClock());

  absl::Status Check() const override;

  const std::vector<ToolchainFile>& files() const { return files_; }
  const std::vector<ToolchainFile>& beside() const { return beside_; }

 private:
  using Places = std::vector<ToolchainFile>;

  FileSnapshot(SealedFiles what, FileListing listing, const Clock& clock);

  // The files of one directory, since a file is found sooner from there than by its whole path.
  struct Holder {
    std::string path;
    std::vector<const ToolchainFile*> files;
  };

  std::vector<Holder> GroupFiles() const;
  absl::Status CheckFiles() const;
  absl::Status CheckBeside() const;
  absl::Status CheckPlaces() const;
  void Keep(Places places) const;

  const SealedFiles what_;
  const Clock& clock_;
  const std::vector<ToolchainFile> files_;
  const std::vector<ToolchainFile> beside_;
  const std::vector<Holder> holders_;  // into files_
  mutable std::mutex mutex_;
  // As they were when the files were listed last; null where these have to be listed once more.
  mutable std::shared_ptr<const Places> places_;
};

}  // namespace kiln
