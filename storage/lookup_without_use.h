// Looks a record up without counting a use.
#pragma once

#include <optional>
#include <utility>

#include "storage/artifact_index.h"

namespace kiln {

// The key right before `key`. Nothing: it is the first of all.
inline std::optional<Digest> KeyBefore(const Digest& key) {
  std::string bytes(key.Bytes());
  for (size_t i = bytes.size(); i-- > 0;) {
    if (bytes[i]-- != '\0') return *Digest::FromBytes(bytes);  // 32 bytes are always a digest
  }
  return std::nullopt;
}

// The record of `key`, or nothing where there is no such record. Unlike ArtifactIndex::Get this is
// not a use: background work must not make an artifact look wanted. Errors of Scan.
inline absl::StatusOr<std::optional<FoundArtifact>> LookupWithoutUse(const CallContext& context,
                                                                     ArtifactIndex& index,
                                                                     const Digest& key) {
  KILN_ASSIGN_OR_RETURN(auto found, index.Scan(context, KeyBefore(key), 1));
  if (found.empty() || found.front().record->key != key) return std::nullopt;
  return std::move(found.front());
}

}  // namespace kiln
