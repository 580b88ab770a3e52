#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "client/graph/operators/views.h"
#include "client/graph/plan/plan.h"
#include "client/graph/segment/shape.h"

namespace kiln::graph {
namespace {

class Explanation {
 public:
  Explanation(const Segment& segment, const Plan& plan) : segment_(segment), plan_(plan) {}

  std::string Text() && {
    Add("{}: {} operations, {} sections, {} left to the engine\n", segment_.name,
        segment_.operations.size(), std::ranges::count_if(plan_.order, &Plan::Step::is_section),
        plan_.refusals.size());
    for (const Plan::Step& step : plan_.order) {
      const auto number = static_cast<size_t>(step.number);
      if (step.is_section) {
        AddSection(number, plan_.sections[number]);
      } else {
        Add("left: {}: {}\n", NameOf(plan_.refusals[number].operation),
            plan_.refusals[number].reason);
      }
    }
    for (const OutputView& view : plan_.views) {
      Add("view: {}: {} is {} from element {} on, strides {}\n", NameOf(view.operation),
          NameOfValue(view.value), NameOfValue(view.base),
          view.view.offset.ToString(segment_.symbols),
          ShapeText(view.view.strides, segment_.symbols));
    }
    for (const FusionChoice& choice : plan_.choices) {
      Add("{}: {} into {}: {}\n", choice.is_fused ? "fused" : "apart", NameOf(choice.producer),
          NameOf(choice.consumer), choice.reason);
    }
    for (const SectionGroup& group : plan_.groups) {
      Add("{}: sections {}: {}\n", group.is_joined ? "one kernel" : "a launch each",
          fmt::join(group.sections, ", "), group.reason);
    }
    return std::move(text_);
  }

 private:
  template <typename... Arguments>
  void Add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }
  // "Add (7)": the operator, and the operation's number.
  std::string NameOf(int operation) const {
    return fmt::format("{} ({})", segment_.operations[static_cast<size_t>(operation)].name,
                       operation);
  }
  const std::string& NameOfValue(int value) const {
    return segment_.values[static_cast<size_t>(value)].name;
  }
  std::string Names(const std::vector<int>& values) const {
    std::string names;
    for (const int value : values) {
      names += (names.empty() ? "" : ", ") + NameOfValue(value);
    }
    return names;
  }
  void AddSection(size_t number, const Section& section) {
    Add("section {}, {}: {} -> {}\n", number, FactsOf(section.type).name, Names(section.inputs),
        Names(section.outputs));
    for (const int operation : section.operations) Add("  {}\n", NameOf(operation));
    if (section.type == SectionType::kView && section.operations.size() == 1) AddCopy(section);
  }
  // Why a view is in memory of its own.
  void AddCopy(const Section& section) {
    const Operation& operation = segment_.operations[static_cast<size_t>(section.root)];
    const Value& input = segment_.values[static_cast<size_t>(operation.inputs.front())];
    for (const int output : section.outputs) {
      const Value& value = segment_.values[static_cast<size_t>(output)];
      const auto place = std::ranges::find(operation.outputs, output) - operation.outputs.begin();
      const bool is_view =
          ViewOf(segment_, operation, static_cast<size_t>(place), {0, StridesOf(input)})
              .has_value();
      const bool has_reader = std::ranges::any_of(plan_.choices, [&](const FusionChoice& choice) {
        return choice.producer == section.root && !choice.is_fused;
      });
      Add("  a copy: {}\n", !is_view                         ? "no strides express it"
                            : has_reader || !value.is_output ? "a reader needs it in memory"
                                                             : "the engine takes outputs in memory "
                                                               "of their own");
    }
  }

  const Segment& segment_;
  const Plan& plan_;
  std::string text_;
};

}  // namespace

std::string Explain(const Segment& segment, const Plan& plan) {
  return Explanation(segment, plan).Text();
}

}  // namespace kiln::graph
