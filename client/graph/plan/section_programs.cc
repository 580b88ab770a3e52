#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "client/graph/operators/op_table.h"
#include "client/graph/operators/section_elements.h"
#include "client/graph/plan/plan.h"

namespace kiln::graph {
namespace {

class SectionLowering {
 public:
  SectionLowering(const Segment& segment, const Section& section)
      : segment_(segment),
        section_(section),
        root_(OperationAt(section.root)),
        rule_(FindLoweringRule(root_.name)) {
    for (const int number : section.operations) {
      if (number == section.root) continue;
      for (const int output : OperationAt(number).outputs) {
        if (output != kOmitted) producers_[output] = number;
      }
    }
  }

  absl::StatusOr<std::vector<LoopProgram>> Programs() const {
    if (rule_ == nullptr) {
      return absl::UnimplementedError(fmt::format("nothing lowers operator {}", root_.name));
    }
    std::vector<LoopProgram> programs;
    for (const int output : section_.outputs) {
      auto program = ProgramOf(output);
      if (!program.ok()) return program.status();
      programs.push_back(*std::move(program));
    }
    return programs;
  }

 private:
  const Operation& OperationAt(int number) const {
    return segment_.operations[static_cast<size_t>(number)];
  }
  const Value& ValueAt(int value) const { return segment_.values[static_cast<size_t>(value)]; }

  // Those of the operation with a loop, if the root does the rest of it to each of its elements.
  std::vector<int> InnerDimensions(int output) const {
    for (const int number : section_.operations) {
      const Operation& operation = OperationAt(number);
      const LoweringRule* const rule = FindLoweringRule(operation.name);
      if (rule->inner != nullptr &&
          ValueAt(operation.outputs.front()).shape == ValueAt(output).shape) {
        return rule->inner(segment_, operation);
      }
    }
    return {};
  }

  absl::StatusOr<LoopProgram> ProgramOf(int output) const {
    SectionElements elements(segment_, producers_, Name(output));
    for (const int input : section_.inputs) elements.AddInput(input);
    return std::move(elements).Program(root_, output, InnerDimensions(output));
  }

  // "kiln_softmax_3": the root's operator and the number of operations. "kiln_split_out1": the
  // second output.
  std::string Name(int output) const {
    std::string name = "kiln_";
    for (const char c : FindOperator(root_.name)->name) {
      name += std::isalnum(static_cast<unsigned char>(c)) != 0
                  ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                  : '_';
    }
    if (section_.operations.size() > 1) name += fmt::format("_{}", section_.operations.size());
    const auto place = std::ranges::find(section_.outputs, output) - section_.outputs.begin();
    if (place > 0) name += fmt::format("_out{}", place);
    return name;
  }

  const Segment& segment_;
  const Section& section_;
  const Operation& root_;
  const LoweringRule* const rule_;
  std::map<int, int> producers_;  // by value
};

}  // namespace

absl::StatusOr<std::vector<LoopProgram>> LowerSection(const Segment& segment,
                                                      const Section& section) {
  return SectionLowering(segment, section).Programs();
}

}  // namespace kiln::graph
