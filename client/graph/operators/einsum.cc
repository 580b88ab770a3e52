// Einsum: products of inputs, summed over the labels that the output lacks.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "absl/strings/str_split.h"
#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/rules.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

// A label is a letter, or one of the digits for the dimensions of an ellipsis: "0" is the last.
struct EinsumPlan {
  std::vector<std::string> inputs;  // a label for each dimension
  std::string output;
  std::map<char, Size> extents;
};

constexpr std::string_view kEllipsis = "...";
constexpr size_t kMostEllipsis = 10;

// The ellipsis of a term, as digits.
absl::StatusOr<std::string> WithoutEllipsis(const Operands& operands, std::string term,
                                            size_t dimensions) {
  const size_t at = term.find(kEllipsis);
  if (at == std::string::npos) return term;
  if (dimensions > kMostEllipsis) return operands.Missing("\"...\" has more than 10 dimensions");
  std::string digits;
  for (size_t i = dimensions; i-- > 0;) digits += static_cast<char>('0' + i);
  return term.replace(at, kEllipsis.size(), digits);
}

// Letters that occur once, in their order, behind the ellipsis.
std::string ImplicitOutput(const std::vector<std::string>& terms) {
  std::string all;
  for (const std::string& term : terms) all += term;
  std::string output;
  for (const char label : all) {
    if (label != '.' && std::ranges::count(all, label) == 1) output += label;
  }
  std::ranges::sort(output);
  return (all.find(kEllipsis) == std::string::npos ? "" : std::string(kEllipsis)) + output;
}

absl::Status AddLabels(const Operands& operands, const std::string& labels, size_t input,
                       EinsumPlan& plan) {
  const Shape& shape = operands.ShapeOf(input);
  if (labels.size() != shape.size()) {
    return operands.Error(fmt::format("\"{}\" does not fit {}", labels, operands.Text(shape)));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    if (std::isalnum(static_cast<unsigned char>(labels[i])) == 0) {
      return operands.Error(fmt::format("'{}' is no label", labels[i]));
    }
    Size& extent = plan.extents.try_emplace(labels[i], 1).first->second;
    if (extent == Size(1)) extent = shape[i];
    if (shape[i] != extent && shape[i] != Size(1)) {
      return operands.Error(fmt::format("label {} has two extents", labels[i]));
    }
  }
  plan.inputs.push_back(labels);
  return absl::OkStatus();
}

absl::StatusOr<EinsumPlan> EinsumPlanOf(const Operands& operands) {
  std::string equation = operands.String("equation", "");
  std::erase(equation, ' ');
  const std::vector<std::string> sides = absl::StrSplit(equation, "->");
  const std::vector<std::string> terms = absl::StrSplit(sides[0], ',');
  if (sides.size() > 2 || terms.size() != operands.inputs()) {
    return operands.Error(fmt::format("\"{}\" needs a term for each input", equation));
  }
  EinsumPlan plan;
  size_t ellipsis = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const size_t rank = operands.ShapeOf(i).size();
    const bool has_ellipsis = terms[i].find(kEllipsis) != std::string::npos;
    const size_t named = terms[i].size() - (has_ellipsis ? kEllipsis.size() : 0);
    if (named > rank) return operands.Error(fmt::format("\"{}\" has too many labels", terms[i]));
    if (has_ellipsis) ellipsis = std::max(ellipsis, rank - named);
    KILN_ASSIGN_OR_RETURN(const auto labels, WithoutEllipsis(operands, terms[i], rank - named));
    KILN_RETURN_IF_ERROR(AddLabels(operands, labels, i, plan));
  }
  const std::string output = sides.size() == 2 ? sides[1] : ImplicitOutput(terms);
  KILN_ASSIGN_OR_RETURN(plan.output, WithoutEllipsis(operands, output, ellipsis));
  for (const char label : plan.output) {
    if (!plan.extents.contains(label) || std::ranges::count(plan.output, label) > 1) {
      return operands.Error(fmt::format("the output's label {} is not one of an input", label));
    }
  }
  return plan;
}

absl::StatusOr<Outputs> EinsumOutputs(const Operands& operands) {
  KILN_ASSIGN_OR_RETURN(const auto plan, EinsumPlanOf(operands));
  Shape shape;
  for (const char label : plan.output) shape.push_back(plan.extents.at(label));
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

absl::StatusOr<int> EinsumElement(ElementEmitter& e, int, const Position& position) {
  KILN_ASSIGN_OR_RETURN(const auto plan, EinsumPlanOf(e));
  std::map<char, int> places;
  for (size_t i = 0; i < position.size(); ++i) places[plan.output[i]] = position[i];
  std::vector<Loop> loops;
  for (const auto& [label, extent] : plan.extents) {
    if (places.contains(label)) continue;
    loops.push_back(e.NewLoop(extent));
    places[label] = loops.back().at;
  }
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  int product = -1;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    Position source;
    for (const char label : plan.inputs[i]) source.push_back(places.at(label));
    const int factor = e.ReadAs(type, i, e.Broadcast(i, source));
    product = i == 0 ? factor : e.Multiply(product, factor);
  }
  return e.Sum(product, loops);
}

constexpr NamedRule kEinsum[] = {{"Einsum", {Infer<EinsumOutputs>, Emit<EinsumElement>}}};

}  // namespace

std::span<const NamedRule> EinsumRules() { return kEinsum; }

}  // namespace kiln::graph
