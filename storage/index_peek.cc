#include "storage/index_peek.h"

#include <utility>

namespace kiln {

std::optional<Digest> KeyBefore(const Digest& key) {
  std::string bytes(key.Bytes());
  for (size_t i = bytes.size(); i-- > 0;) {
    if (bytes[i]-- != '\0') return *Digest::FromBytes(bytes);  // 32 bytes are always a digest
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<FoundArtifact>> Peek(const CallContext& context, ArtifactIndex& index,
                                                  const Digest& key) {
  KILN_ASSIGN_OR_RETURN(auto found, index.Scan(context, KeyBefore(key), 1));
  if (found.empty() || found.front().record->key != key) return std::nullopt;
  return std::move(found.front());
}

}  // namespace kiln
