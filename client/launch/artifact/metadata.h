// Reads kiln.v1.KernelMetadata, which a launcher needs, from JSON.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/launch/artifact/status.h"

namespace kiln::launch {

// One parameter. Its type is spelled as in Triton, in its IR or in PTX.
struct Parameter {
  std::string name;  // may be empty
  std::string type;
};

// The fields from which a CUtensorMap is encoded.
struct TensorDescriptorMetadata {
  int64_t swizzle = 0;
  int64_t elem_size = 0;
  int64_t elem_type = 0;
  std::vector<int64_t> block_size;
  bool fp4_padded = false;
  bool is_im2col = false;
};

struct KernelMetadata {
  std::string name = {};
  std::string backend = {};       // "cuda", "hip", "spirv"
  std::string architecture = {};  // "90a", "gfx942"; "1.2": the newest SPIR-V version that it uses
  int64_t shared_bytes = 0;
  int64_t num_warps = 0;  // 0: plain PTX or CUDA C++ that does not say
  int64_t num_ctas = 1;
  int64_t warp_size = 32;
  int64_t global_scratch_bytes = 0;
  int64_t global_scratch_align = 1;
  int64_t profile_scratch_bytes = 0;
  int64_t profile_scratch_align = 1;
  int64_t tensor_memory_columns = 0;
  std::array<int64_t, 3> cluster_dims = {1, 1, 1};
  bool launch_pdl = false;
  bool launch_cooperative_grid = false;
  std::vector<TensorDescriptorMetadata> tensor_descriptors = {};
  // Triton before 3.7: the shape that goes with a padded descriptor counts both elements of a byte.
  bool counts_padded_elements = false;
  std::vector<Parameter> parameters = {};  // in the order of passing, without the hidden ones
  int64_t hidden_pointers = 0;

  // Whether Triton's conventions hold: the grid counts clusters, all shared memory is dynamic, the
  // block is a row of warps. Only kernels from Triton take hidden pointers, and all of them do.
  bool IsTriton() const { return hidden_pointers > 0; }
};

// The metadata and the other fields of the JSON.
struct ArtifactDescription {
  KernelMetadata metadata;
  // The JSON that `metadata` was read from, without spaces, its keys in order. Kernels with the
  // same binary and the same text are launched in the same way.
  std::string metadata_text;
  // Empty: not in the JSON.
  std::string key;            // 64 hex digits
  std::string binary_stage;   // "cubin", "hsaco", "spv"
  std::string binary_digest;  // 64 hex digits
  std::string binary_file;    // beside the JSON
};

// Reads the document of an artifact file, or the JSON of `kiln compile -o`. Ignores unknown fields.
// INVALID_ARGUMENT: not such a JSON, or a number out of bounds.
StatusOr<ArtifactDescription> ParseDescription(std::string_view json);

}  // namespace kiln::launch
