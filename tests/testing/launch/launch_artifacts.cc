#include "tests/testing/launch/launch_artifacts.h"

#include <elf.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

namespace kiln {

std::string MadeElf(std::string_view content) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + std::string(content);
}

std::string MadeDocument(const std::string& name,
                         const std::vector<std::pair<std::string, std::string>>& parameters,
                         const std::string& patch) {
  nlohmann::json metadata = {
      {"name", name},
      {"target", {{"backend", "cuda"}, {"architecture", "90"}, {"warp_size", 32}}},
      {"shared_bytes", 1024},
      {"num_warps", 4},
      {"num_ctas", 1},
      {"warp_size", 32},
      {"global_scratch_bytes", 0},
      {"global_scratch_align", 1},
      {"profile_scratch_bytes", 0},
      {"profile_scratch_align", 1},
      {"tensor_memory_columns", 0},
      {"cluster_dims", {1, 1, 1}},
      {"launch_pdl", false},
      {"launch_cooperative_grid", false},
      {"registers", nullptr},
      {"tensor_descriptors", nlohmann::json::array()},
      {"parameters", nlohmann::json::array()},
      {"hidden_pointers", 2}};
  for (const auto& [parameter, type] : parameters) {
    metadata["parameters"].push_back({{"name", parameter}, {"type", type}});
  }
  metadata.merge_patch(nlohmann::json::parse(patch));
  return nlohmann::json({{"format", 1}, {"metadata", metadata}}).dump();
}

std::shared_ptr<const launch::Artifact> MadeArtifact(const std::string& document,
                                                     std::string_view content) {
  const std::string binary = MadeElf(content);
  const launch::Sha256Digest digest = launch::Sha256(binary);
  auto made = launch::Artifact::FromBytes(document, binary, digest, launch::Sha256(document));
  if (made.ok()) return *made;
  std::fprintf(stderr, "%s\n", std::string(made.status().message()).c_str());
  std::abort();
}

}  // namespace kiln
