#include "client/graph/emit/triton/triton_emitter.h"

#include <fmt/format.h>

#include "absl/status/status.h"
#include "client/graph/emit/triton/attention.h"
#include "client/graph/emit/triton/attention_emitter.h"
#include "client/graph/emit/triton/groups.h"
#include "client/graph/emit/triton/product.h"
#include "client/graph/emit/triton/product_emitter.h"
#include "client/graph/emit/triton/program_emitter.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

absl::Status CheckTypes(const LoopProgram& program) {
  for (const Instruction& instruction : program.instructions) {
    const DTypeFacts& facts = FactsOf(instruction.type);
    if (instruction.store == StoreKind::kPlain) continue;
    const bool is_add = instruction.store == StoreKind::kAtomicAdd;
    const bool is_half = is_add && instruction.type == DType::kF16;
    if (facts.bits < 32 && !is_half) {
      return absl::UnimplementedError(
          fmt::format("kernel {}: Triton IR: atomic store of {}", program.name, facts.name));
    }
  }
  return absl::OkStatus();
}

std::optional<EmittedKernel> EmittedProduct(const LoopProgram& program,
                                            const EmitOptions& options) {
  const auto product = triton::FindProduct(program, options);
  if (!product) return std::nullopt;
  auto kernel = triton::EmitProduct(program, *product, options);
  return kernel.ok() ? std::optional(*std::move(kernel)) : std::nullopt;
}

}  // namespace

absl::StatusOr<EmittedKernel> EmitTriton(const LoopProgram& program, const EmitOptions& options) {
  if (std::string wrong = WhatIsWrong(program); !wrong.empty()) {
    return absl::InvalidArgumentError(fmt::format("kernel {}: {}", program.name, wrong));
  }
  KILN_RETURN_IF_ERROR(CheckTypes(program));
  // Where something beside the product or attention does not fit its tiles, the program is emitted
  // as any other.
  if (auto kernel = EmittedProduct(program, options)) return *std::move(kernel);
  if (const auto attention = triton::FindAttention(program, options)) {
    auto kernel = triton::EmitAttention(program, *attention, options);
    if (kernel.ok()) return kernel;
  }
  if (const auto split = triton::SplitGroups(program)) {
    if (auto kernel = EmittedProduct(*split, options)) return *std::move(kernel);
  }
  return triton::ProgramEmitter(program, options).Run();
}

}  // namespace kiln::graph
