#include "tests/testing/graph/plan_runner.h"

#include <string>

#include "client/graph/operators/lowering.h"
#include "client/graph/segment/shape.h"

namespace kiln::graph {
namespace {

absl::Status RunPrograms(const Segment& segment, const std::vector<LoopProgram>& programs,
                         const std::vector<int64_t>& symbols, std::map<int, TestBuffer>& memory) {
  for (const LoopProgram& program : programs) {
    std::vector<TestBuffer> buffers;
    std::vector<int> values;
    for (const Buffer& buffer : program.buffers) {
      const int value = std::stoi(buffer.name.substr(1));
      const Value& facts = segment.values[static_cast<size_t>(value)];
      values.push_back(value);
      const auto elements = ElementsOf(facts.shape).Evaluate(symbols);
      buffers.push_back(memory.try_emplace(value, facts.type, elements.value_or(0)).first->second);
    }
    if (const absl::Status status = Interpret(program, symbols, buffers); !status.ok()) {
      return status;
    }
    for (size_t i = 0; i < values.size(); ++i) memory.at(values[i]) = buffers[i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunPlan(const Segment& segment, const Plan& plan, const std::vector<int64_t>& symbols,
                     std::map<int, TestBuffer>& memory) {
  for (const Plan::Step& step : plan.order) {
    const auto number = static_cast<size_t>(step.number);
    const auto programs =
        step.is_section
            ? LowerSection(segment, plan.sections[number])
            : Lower(segment,
                    segment.operations[static_cast<size_t>(plan.refusals[number].operation)]);
    if (!programs.ok()) return programs.status();
    const absl::Status status = RunPrograms(segment, *programs, symbols, memory);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace kiln::graph
