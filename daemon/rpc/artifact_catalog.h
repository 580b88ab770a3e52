// Stored artifacts as operators look at them: by pages and by the beginnings of keys.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kiln/admin/v1/admin_service.pb.h"
#include "storage/artifact_index.h"

namespace kiln {

// The keys that begin with some hex digits: a contiguous range.
struct KeyRange {
  Digest first;
  Digest last;
};
// INVALID_ARGUMENT where they are not 0 to 64 hex digits.
absl::StatusOr<KeyRange> KeysBeginningWith(std::string_view hex_prefix);

struct ArtifactPage {
  std::vector<FoundArtifact> artifacts;
  bool has_more = false;
};

// The artifacts in `range` after `after`, at most `limit`.
absl::StatusOr<ArtifactPage> ReadPage(ArtifactIndex& index, const CallContext& context,
                                      const KeyRange& range, const std::optional<Digest>& after,
                                      size_t limit);

// A page of a list, of those that the request's filters leave. Looks at some thousands at most, so
// an answer may have none and name another page. Errors: INVALID_ARGUMENT; the index's.
absl::Status ListArtifacts(ArtifactIndex& index, const CallContext& context,
                           const admin::v1::ListArtifactsRequest& request,
                           admin::v1::ListArtifactsResponse& response);

// The only one whose key begins so. INVALID_ARGUMENT where the prefix is shorter than 4 digits or
// several do, NOT_FOUND where none does.
absl::StatusOr<FoundArtifact> FindByPrefix(ArtifactIndex& index, const CallContext& context,
                                           std::string_view hex_prefix);

// FAILED_PRECONDITION for the key of an entry of a user's own namespace.
absl::Status CheckIsArtifact(const Digest& key);

// What a list shows. A record whose document cannot be read is listed by what the index itself
// knows.
void Summarize(const FoundArtifact& found, admin::v1::ArtifactSummary& out);

}  // namespace kiln
