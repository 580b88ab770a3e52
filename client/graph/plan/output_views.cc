#include "client/graph/plan/output_views.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "client/graph/segment/shape.h"

namespace kiln::graph {
namespace {

class Views {
 public:
  Views(const Segment& segment, const Plan& plan)
      : segment_(segment),
        in_memory_(segment.values.size()),
        producers_(segment.values.size(), -1) {
    for (size_t i = 0; i < in_memory_.size(); ++i) in_memory_[i] = segment.values[i].is_input;
    for (const Section& section : plan.sections) Mark(section.outputs);
    for (const Refusal& refusal : plan.refusals) Mark(OperationAt(refusal.operation).outputs);
    for (size_t i = 0; i < segment.operations.size(); ++i) {
      for (const int output : segment.operations[i].outputs) {
        if (output != kOmitted) producers_[static_cast<size_t>(output)] = static_cast<int>(i);
      }
    }
  }

  std::vector<OutputView> All() const {
    std::vector<OutputView> views;
    for (size_t i = 0; i < segment_.values.size(); ++i) {
      if (!segment_.values[i].is_output || in_memory_[i] || producers_[i] < 0) continue;
      const auto value = static_cast<int>(i);
      if (auto found = Find(value)) {
        views.push_back({producers_[i], value, found->first, std::move(found->second)});
      }
    }
    return views;
  }

 private:
  const Operation& OperationAt(int number) const {
    return segment_.operations[static_cast<size_t>(number)];
  }
  void Mark(const std::vector<int>& values) {
    for (const int value : values) {
      if (value != kOmitted) in_memory_[static_cast<size_t>(value)] = true;
    }
  }

  // The value in memory, and where the elements are in it.
  std::optional<std::pair<int, View>> Find(int value) const {
    std::vector<int> chain;  // from the output to the memory
    while (!in_memory_[static_cast<size_t>(value)]) {
      const int producer = producers_[static_cast<size_t>(value)];
      if (producer < 0 || OperationAt(producer).inputs.empty()) return std::nullopt;
      chain.push_back(value);
      value = OperationAt(producer).inputs.front();
      if (value == kOmitted) return std::nullopt;
    }
    View view{0, StridesOf(segment_.values[static_cast<size_t>(value)])};
    for (size_t i = chain.size(); i-- > 0;) {
      const Operation& operation = OperationAt(producers_[static_cast<size_t>(chain[i])]);
      const auto place = std::ranges::find(operation.outputs, chain[i]) - operation.outputs.begin();
      auto next = ViewOf(segment_, operation, static_cast<size_t>(place), view);
      if (!next) return std::nullopt;
      view = *std::move(next);
    }
    return std::pair(value, std::move(view));
  }

  const Segment& segment_;
  std::vector<bool> in_memory_;  // by value
  std::vector<int> producers_;   // by value, -1: none
};

}  // namespace

std::vector<OutputView> OutputViewsOf(const Segment& segment, const Plan& plan) {
  return Views(segment, plan).All();
}

}  // namespace kiln::graph
