// Finds the stored artifact that is nearest to a kernel that is not stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/kernel/compile_job.h"
#include "storage/artifact_index.h"
#include "storage/base/call_context.h"
#include "storage/blob_store.h"

namespace kiln {

// One thing that is in the key and not the same. Values are for people; of texts (the source, a
// header) they are digest and length, never the text.
struct RequestDifference {
  std::string field;  // "num_warps", "target", "ptxas", "source", "header tile.h"
  std::string asked;
  std::string stored;
  friend bool operator==(const RequestDifference&, const RequestDifference&) = default;
};

struct NearestArtifact {
  Digest key;
  std::string toolchain;
  Digest toolchain_fingerprint;
  Target target;
  int64_t created_unix_ms = 0;
  std::vector<RequestDifference> differences;
};

struct NearestSearch {
  std::optional<NearestArtifact> nearest;
  uint64_t records = 0;       // looked at
  bool has_seen_all = false;  // false: a limit ended it
};

// The stored artifact, other than the one that was asked for, of a kernel of the same name whose
// request differs from `asked` in the fewest things; of several such one with the same source,
// then the one whose listed options are most alike, then the youngest. The name is that of the
// entry point in the source, or that of the request where the source does not tell it. Of many such
// artifacts, compares those whose listed options are most alike, and the youngest. Counts as no use
// of anything. Errors of the store, and StillWanted's. Blocks.
absl::StatusOr<NearestSearch> FindNearest(const CallContext& context, const Clock& clock,
                                          ArtifactIndex& index, BlobStore& blobs,
                                          const CompileJob& asked);

}  // namespace kiln
