// Artifacts made up for tests: same arguments, same artifact.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/artifact_index.h"

namespace kiln {

// A record together with the content of its stages.
struct MadeArtifact {
  ArtifactRecord record;
  std::vector<Blob> blobs;
};

// A key that looks like a real one.
Digest MadeKey(std::string_view name);

// `size_bytes` bytes that hardly compress, decided by `seed`.
std::string Noise(uint64_t seed, size_t size_bytes);

// An artifact with a "ptx" and a "cubin" stage, whose contents are decided by `name`; the cubin,
// which does not compress, has `size_bytes`.
MadeArtifact MakeArtifact(std::string_view name, size_t size_bytes = 1000);

}  // namespace kiln
