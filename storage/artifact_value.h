// How much it is worth to keep an artifact. Eviction starts with the lowest value.
#pragma once

#include <cstdint>

#include "storage/artifact_index.h"

namespace kiln {

// Compile seconds saved per byte kept: seconds × reuse ÷ bytes (after GreedyDual-Size-Frequency).
// Reuse grows with every hit and halves over the first idle day, so a kernel without requests for
// weeks is worth less than a cheaper kernel in use.
double ArtifactValue(const ArtifactRecord& record, const ArtifactUsage& usage, int64_t now_unix_ms);

// The size of document and stages before compression.
uint64_t ArtifactBytes(const ArtifactRecord& record);

}  // namespace kiln
