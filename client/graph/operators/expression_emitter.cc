#include <fmt/format.h>

#include <functional>
#include <variant>

#include "absl/status/status.h"
#include "client/graph/operators/expression.h"
#include "client/graph/program/opcode.h"

namespace kiln::graph {
namespace {

class ExpressionEmitter {
 public:
  using Node = Expression::Node;
  using Kind = Expression::Node::Kind;

  ExpressionEmitter(const Expression& expression, const ExpressionInputs& inputs,
                    ProgramBuilder& builder)
      : nodes_(expression.nodes()), inputs_(inputs), builder_(builder), made_(nodes_.size()) {}

  absl::StatusOr<int> Run() {
    const int result = Emit(static_cast<int>(nodes_.size()) - 1);
    if (wrong_.empty()) return result;
    return absl::InvalidArgumentError(wrong_);
  }

 private:
  const Node& At(int node) const { return nodes_[static_cast<size_t>(node)]; }
  int Fail(std::string wrong) {
    if (wrong_.empty()) wrong_ = std::move(wrong);
    return builder_.SizeOf(0);
  }

  int Emit(int number) {
    std::optional<int>& made = made_[static_cast<size_t>(number)];
    if (!made) made = Make(number);
    return *made;
  }

  int Make(int number) {
    if (const auto known = Known(number)) return builder_.Integer(DType::kBool, *known ? 1 : 0);
    const Node& node = At(number);
    switch (node.kind) {
      case Kind::kInput:
        if (Has(node)) return *inputs_.values[static_cast<size_t>(node.input)];
        return Fail(fmt::format("input {} is missing", node.input));
      case Kind::kNumber:
      case Kind::kAttribute:
        if (const auto value = NumberOf(number)) return builder_.Constant(inputs_.type, *value);
        return Fail(fmt::format("attribute {} is missing, or is no number", node.text));
      case Kind::kText:
      case Kind::kHas:
        return Fail("a text is no value");
      case Kind::kCall:
        return Call(node);
    }
    return 0;
  }

  int Call(const Node& node) {
    if (node.opcode == Opcode::kSelect) {
      if (const auto known = Known(node.arguments[0])) return Emit(node.arguments[*known ? 1 : 2]);
    }
    std::vector<int> values;
    for (const int argument : node.arguments) values.push_back(Emit(argument));
    switch (values.size()) {
      case 1:
        return builder_.Unary(node.opcode, values[0]);
      case 2:
        return builder_.Binary(node.opcode, values[0], values[1]);
      default:
        if (node.opcode == Opcode::kMultiplyAdd) {
          return builder_.MultiplyAdd(values[0], values[1], values[2]);
        }
        return builder_.Select(values[0], values[1], values[2]);
    }
  }

  bool Has(const Node& node) const {
    if (!node.text.empty()) return inputs_.attributes.contains(node.text);
    const auto input = static_cast<size_t>(node.input);
    return input < inputs_.values.size() && inputs_.values[input].has_value();
  }

  const Attribute* AttributeOf(const Node& node) const {
    const auto found = inputs_.attributes.find(node.text);
    return found == inputs_.attributes.end() ? nullptr : &found->second;
  }

  std::optional<double> NumberOf(int number) const {
    const Node& node = At(number);
    if (node.kind == Kind::kNumber) return node.number;
    if (node.kind != Kind::kAttribute) return std::nullopt;
    const Attribute* attribute = AttributeOf(node);
    if (attribute == nullptr) return std::nullopt;
    if (const auto* value = std::get_if<double>(attribute)) return *value;
    if (const auto* value = std::get_if<int64_t>(attribute)) return static_cast<double>(*value);
    return std::nullopt;
  }

  std::optional<std::string> TextOf(int number) const {
    const Node& node = At(number);
    if (node.kind == Kind::kText) return node.text;
    if (node.kind != Kind::kAttribute) return std::nullopt;
    const Attribute* attribute = AttributeOf(node);
    const auto* text = attribute == nullptr ? nullptr : std::get_if<std::string>(attribute);
    return text == nullptr ? std::nullopt : std::optional(*text);
  }

  // Conditions on attributes and on what is given.
  std::optional<bool> Known(int number) const {
    const Node& node = At(number);
    if (node.kind == Kind::kHas) return Has(node);
    if (node.kind != Kind::kCall || node.arguments.size() != 2) return std::nullopt;
    if (node.opcode == Opcode::kAnd || node.opcode == Opcode::kOr) return KnownLogic(node);
    const int one = node.arguments[0];
    const int two = node.arguments[1];
    if (const auto texts = std::pair(TextOf(one), TextOf(two)); texts.first && texts.second) {
      if (node.opcode == Opcode::kEqual) return *texts.first == *texts.second;
      if (node.opcode == Opcode::kNotEqual) return *texts.first != *texts.second;
      return std::nullopt;
    }
    const auto numbers = std::pair(NumberOf(one), NumberOf(two));
    if (!numbers.first || !numbers.second) return std::nullopt;
    switch (node.opcode) {
      case Opcode::kLess:
        return *numbers.first < *numbers.second;
      case Opcode::kLessOrEqual:
        return *numbers.first <= *numbers.second;
      case Opcode::kEqual:
        return *numbers.first == *numbers.second;
      case Opcode::kNotEqual:
        return *numbers.first != *numbers.second;
      default:
        return std::nullopt;
    }
  }

  std::optional<bool> KnownLogic(const Node& node) const {
    const auto one = Known(node.arguments[0]);
    const auto two = Known(node.arguments[1]);
    const bool decides = node.opcode == Opcode::kOr;
    if (one == decides || two == decides) return decides;
    if (one && two) return !decides;
    return std::nullopt;
  }

  const std::vector<Node>& nodes_;
  const ExpressionInputs& inputs_;
  ProgramBuilder& builder_;
  std::vector<std::optional<int>> made_;
  std::string wrong_;
};

}  // namespace

absl::StatusOr<int> EmitExpression(const Expression& expression, const ExpressionInputs& inputs,
                                   ProgramBuilder& builder) {
  return ExpressionEmitter(expression, inputs, builder).Run();
}

}  // namespace kiln::graph
