// What ptxas writes: -v of a compile, --help of itself.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/kernel/kernel.h"

namespace kiln {

// Takes the first line off, with the end of it, and gives it.
std::string_view TakeLine(std::string_view& text);

// What one function takes; absent where ptxas does not say.
struct PtxasUsage {
  std::optional<int64_t> registers;     // per thread
  std::optional<int64_t> shared_bytes;  // static, per CTA
  std::optional<int64_t> stack_bytes;   // per thread, as the next two
  std::optional<int64_t> spill_store_bytes;
  std::optional<int64_t> spill_load_bytes;
};

// By entry function.
std::map<std::string, PtxasUsage> ReadPtxasUsage(std::string_view log);

// Why it refused, out of its log. INVALID_ARGUMENT, or RESOURCE_EXHAUSTED where the kernel does not
// fit, with the line in the PTX where it gives one; INTERNAL and not deterministic where nothing in
// the log says that the PTX is at fault, with `otherwise` as the message.
CompileFailure ReadPtxasFailure(std::string_view log, std::string_view otherwise);

// Declarations of those PtxasOptions, as --describe prints them, that a ptxas has whose --help says
// `help`.
nlohmann::json DescribePtxasOptions(std::string_view help);

// Adds what to ask for where `ptx` was refused because it is written for another architecture.
void NameArchitectureOf(std::string_view ptx, CompileFailure& failure);

}  // namespace kiln
