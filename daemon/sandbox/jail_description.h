// What keeps a worker to its job, as the daemon tells it to the worker. protocol.md has it on the
// wire, docs/adr the reasons.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "storage/base/limits.h"
#include "storage/base/status.h"

namespace kiln {

// What one worker may take. 0: unlimited.
struct WorkerLimits {
  uint64_t file_bytes = limits::kWorkerFileBytesMax;
  uint64_t address_space_bytes = 0;
  uint64_t cpu_seconds = 0;  // of one process
  uint64_t processes = 0;    // of the worker's user, when it would start one more
  uint64_t descriptors = limits::kWorkerDescriptorsMax;
  // The size of a tmpfs for all its files, and their number, the directory included (work_mount.h).
  // Both 0: it gets no tmpfs.
  uint64_t disk_bytes = 0;
  uint64_t disk_entries = 0;
};

// One file, or a directory with all that is in it, and the rights of landlock.h to it.
struct JailPath {
  std::string path;
  uint64_t access = 0;
};

// What a worker with a tmpfs makes in its root, which is empty but for these entries.
struct ViewEntry {
  enum class Kind { kDirectory, kLink, kShownDirectory, kShownFile };

  Kind kind = Kind::kDirectory;
  std::string path;    // behind the directory that it lies in; of what is shown, without links
  std::string target;  // of a link
};

struct JailDescription {
  // Landlock: rights that only `paths` give back. All zero: this kernel has no Landlock.
  uint64_t handled_files = 0;
  uint64_t handled_network = 0;
  uint64_t scopes = 0;
  std::vector<JailPath> paths;
  // Empty: this kernel has no filters.
  std::vector<sock_filter> filter;
  // The machine's files that a worker sees: `paths`, and the links to them (file_view.h).
  std::vector<ViewEntry> view;
};

nlohmann::json EncodeLimits(const WorkerLimits& limits);
nlohmann::json EncodeJail(const JailDescription& jail);

// For what the daemon has encoded. INTERNAL where something is absent or of the wrong type; bounds
// are not looked at.
absl::StatusOr<WorkerLimits> DecodeLimits(const nlohmann::json& json);
absl::StatusOr<JailDescription> DecodeJail(const nlohmann::json& json);

}  // namespace kiln
