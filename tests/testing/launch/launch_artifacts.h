// Artifacts for tests of client/launch.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/launch/artifact/artifact.h"

namespace kiln {

// The smallest 64-bit ELF file, with `content` behind its header.
std::string MadeElf(std::string_view content);

// The metadata of a Triton kernel for cuda:90 as a hot document has it, changed by a JSON merge
// patch: R"({"num_ctas": 2})".
std::string MadeDocument(const std::string& name,
                         const std::vector<std::pair<std::string, std::string>>& parameters,
                         const std::string& patch = "{}");

// With the SHA-256 that it has, of a binary that is unique to `name`.
std::shared_ptr<const launch::Artifact> MadeArtifact(const std::string& document,
                                                     std::string_view content = "code");

// Fills an array of the C interface.
inline void Assign(uint32_t (&lengths)[3], const std::array<uint32_t, 3>& values) {
  std::copy(values.begin(), values.end(), lengths);
}

}  // namespace kiln
