// The size of a parameter by the name of its type.
#pragma once

#include <cstddef>
#include <string_view>

namespace kiln::launch {

inline constexpr size_t kTensorMapBytes = 128;

// A device pointer: "*fp16", "!tt.ptr<f16>".
bool IsPointer(std::string_view type);
// A descriptor that is passed as a CUtensorMap by value: "tensordesc<fp16[128,64]>", "nvTmaDesc",
// "!tt.tensordesc<…>".
bool IsTensorMap(std::string_view type);

// The bytes of one value. Knows the spelling of Triton ("*fp16", "i32", "u1", "bf16"), of its IR
// ("f16", "!tt.tensordesc<…>") and of PTX ("u64", "b8[128]"). 0: not known.
size_t BytesOfType(std::string_view type);

}  // namespace kiln::launch
