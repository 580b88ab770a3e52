// What keeping an artifact is worth: who must go first, and who belongs into the hot directory.
#pragma once

#include <cstdint>

#include "storage/artifact_index.h"

namespace kiln {

// Compile seconds saved per byte kept: seconds × reuse ÷ bytes. Reuse grows with every hit and
// halves over the first idle day, so a kernel that nobody has asked for in weeks gives way to a
// cheaper one in use (after GreedyDual-Size-Frequency).
double ArtifactValue(const ArtifactRecord& record, const ArtifactUsage& usage, int64_t now_unix_ms);

// Document and stages, before compression.
uint64_t ArtifactBytes(const ArtifactRecord& record);

}  // namespace kiln
