// What a PTX text says of its kernels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/kernel/kernel.h"

namespace kiln {

using Extent = std::array<int64_t, 3>;

struct PtxEntry {
  std::string name;
  // Types as PTX spells them, without the dot: "u64", "f32", "b8[128]".
  std::vector<KernelParameter> parameters;
  std::optional<Extent> required_threads;  // .reqntid
  std::optional<Extent> maximum_threads;   // .maxntid
  std::optional<Extent> cluster;           // .reqnctapercluster
};

// The entry functions that `text` defines, in its order. Reads declarations only and checks
// nothing: whether it is PTX at all, ptxas says. What it cannot read it passes over.
std::vector<PtxEntry> PtxEntries(std::string_view text);

// The architecture that `text` says it is written for, without "sm_": "90a". "" where it says none.
std::string PtxArchitecture(std::string_view text);

}  // namespace kiln
