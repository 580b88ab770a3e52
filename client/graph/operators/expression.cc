#include "client/graph/operators/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <map>
#include <numbers>
#include <utility>

#include "absl/status/status.h"
#include "client/graph/program/opcode.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

using Node = Expression::Node;
using NodeKind = Expression::Node::Kind;

// Functions made of opcodes. x is the argument.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kFunctions = {{
    {"sigmoid", "1 / (1 + exp(-x))"},
    // Both without cancellation near 0: Kahan's correction, and a property of tanh.
    {"log1p", "u = 1 + x; select(u == 1 || isinf(u), x, log(u) * (x / (u - 1)))"},
    {"expm1", "select(abs(x) < 0.5, tanh(x * 0.5) * (exp(x) + 1), exp(x) - 1)"},
    {"softplus", "max(x, 0) + log1p(exp(-abs(x)))"},
}};

struct Operator2 {
  std::string_view text;
  Opcode opcode;
  bool is_swapped = false;
};
// From loose to tight. Longer texts stand first.
const std::array<std::vector<Operator2>, 5> kOperators = {{
    {{"||", Opcode::kOr}},
    {{"&&", Opcode::kAnd}},
    {{"<=", Opcode::kLessOrEqual},
     {">=", Opcode::kLessOrEqual, true},
     {"==", Opcode::kEqual},
     {"!=", Opcode::kNotEqual},
     {"<", Opcode::kLess},
     {">", Opcode::kLess, true}},
    {{"+", Opcode::kAdd}, {"-", Opcode::kSubtract}},
    {{"*", Opcode::kMultiply}, {"/", Opcode::kDivide}, {"%", Opcode::kRemainder}},
}};

}  // namespace

class ExpressionParser {
 public:
  using Scope = std::map<std::string, int, std::less<>>;

  ExpressionParser(std::string_view text, Scope scope, std::vector<Node>& nodes)
      : text_(text), scope_(std::move(scope)), nodes_(nodes) {}

  absl::StatusOr<int> Run() {
    while (true) {
      const size_t start = at_;
      const std::string name = Name();
      if (name.empty() || !Skip("=") || Peek() == '=') {
        at_ = start;
        break;
      }
      const int value = Binary(0);
      if (!Skip(";")) Fail("\";\" is missing");
      if (!wrong_.empty()) break;
      scope_[name] = value;
    }
    const int result = Binary(0);
    Blanks();
    if (at_ != text_.size()) Fail("the expression should end here");
    if (wrong_.empty()) return result;
    return absl::InvalidArgumentError(wrong_);
  }

 private:
  void Fail(std::string_view what) {
    if (wrong_.empty()) wrong_ = fmt::format("\"{}\", character {}: {}", text_, at_ + 1, what);
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void Blanks() {
    while (Peek() == ' ') ++at_;
  }
  bool Skip(std::string_view token) {
    Blanks();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  std::string Name() {
    Blanks();
    const size_t start = at_;
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    if (std::isdigit(static_cast<unsigned char>(Peek())) != 0) return "";
    while (is_word(Peek())) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  int Add(Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<int>(nodes_.size()) - 1;
  }
  int Call(Opcode opcode, std::vector<int> arguments) {
    Node node;
    node.kind = NodeKind::kCall;
    node.opcode = opcode;
    node.arguments = std::move(arguments);
    return Add(std::move(node));
  }
  int Number(double number) {
    Node node;
    node.number = number;
    return Add(std::move(node));
  }
  int Text(NodeKind kind, std::string text) {
    Node node;
    node.kind = kind;
    node.text = std::move(text);
    return Add(std::move(node));
  }

  int Binary(size_t level) {
    if (level == kOperators.size()) return Prefix();
    int left = Binary(level + 1);
    while (wrong_.empty()) {
      const auto& all = kOperators[level];
      const auto found =
          std::ranges::find_if(all, [&](const Operator2& one) { return Skip(one.text); });
      if (found == all.end()) break;
      const int right = Binary(level + 1);
      left = found->is_swapped ? Call(found->opcode, {right, left})
                               : Call(found->opcode, {left, right});
    }
    return left;
  }

  int Prefix() {
    if (Skip("!")) return Call(Opcode::kNot, {Prefix()});
    if (!Skip("-")) return Primary();
    const int value = Prefix();
    Node& node = nodes_[static_cast<size_t>(value)];
    if (node.kind != NodeKind::kNumber) return Call(Opcode::kNegate, {value});
    return Number(-node.number);
  }

  int Primary() {
    if (Skip("(")) {
      const int value = Binary(0);
      if (!Skip(")")) Fail("\")\" is missing");
      return value;
    }
    if (Skip("'")) {
      const size_t end = std::min(text_.find('\'', at_), text_.size());
      const int value = Text(NodeKind::kText, std::string(text_.substr(at_, end - at_)));
      at_ = std::min(end + 1, text_.size());
      return value;
    }
    if (std::isdigit(static_cast<unsigned char>(Peek())) != 0) return Literal();
    const std::string name = Name();
    if (name.empty()) Fail("a value is missing");
    return Skip("(") ? Function(name) : Variable(name);
  }

  int Literal() {
    double number = 0;
    const auto read = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    at_ = static_cast<size_t>(read.ptr - text_.data());
    return Number(number);
  }

  int Variable(const std::string& name) {
    if (const auto found = scope_.find(name); found != scope_.end()) return found->second;
    if (name.size() == 1 && name[0] >= 'x' && name[0] <= 'z') {
      Node node;
      node.kind = NodeKind::kInput;
      node.input = name[0] - 'x';
      return Add(std::move(node));
    }
    if (name == "pi") return Number(std::numbers::pi);
    if (name == "inf") return Number(std::numeric_limits<double>::infinity());
    if (name == "nan") return Number(std::numeric_limits<double>::quiet_NaN());
    return Text(NodeKind::kAttribute, name);
  }

  int Function(const std::string& name) {
    std::vector<int> arguments;
    do {
      arguments.push_back(Binary(0));
    } while (wrong_.empty() && Skip(","));
    if (!Skip(")")) Fail("\")\" is missing");
    if (!wrong_.empty()) return 0;
    if (name == "has") return Has(arguments[0]);
    for (const auto& [function, body] : kFunctions) {
      if (function != name) continue;
      const auto value = ExpressionParser(body, {{"x", arguments[0]}}, nodes_).Run();
      if (!value.ok()) Fail(std::string(value.status().message()));
      return value.ok() ? *value : 0;
    }
    const auto opcode = ParseOpcode(name);
    if (!opcode || (FactsOf(*opcode).kind != OpcodeKind::kCompute && *opcode != Opcode::kSelect)) {
      Fail(fmt::format("there is no function {}", name));
    } else if (static_cast<int>(arguments.size()) != FactsOf(*opcode).operands_min) {
      Fail(fmt::format("{} takes {} arguments", name, FactsOf(*opcode).operands_min));
    }
    return wrong_.empty() ? Call(*opcode, std::move(arguments)) : 0;
  }

  int Has(int argument) {
    Node node = nodes_[static_cast<size_t>(argument)];
    if (node.kind != NodeKind::kInput && node.kind != NodeKind::kAttribute) {
      Fail("has() takes an input or an attribute");
    }
    node.kind = NodeKind::kHas;
    return Add(std::move(node));
  }

  std::string_view text_;
  size_t at_ = 0;
  Scope scope_;
  std::vector<Node>& nodes_;
  std::string wrong_;
};

absl::StatusOr<Expression> Expression::Parse(std::string_view text) {
  Expression expression;
  KILN_ASSIGN_OR_RETURN(const auto result, ExpressionParser(text, {}, expression.nodes_).Run());
  // `has` of a name, and the parts of a negative number, may have left nodes behind the result.
  expression.nodes_.resize(static_cast<size_t>(result) + 1);
  return expression;
}

bool Expression::Computes() const {
  return std::ranges::any_of(nodes_, [](const Node& node) {
    return node.kind == NodeKind::kCall && FactsOf(node.opcode).kind == OpcodeKind::kCompute;
  });
}

}  // namespace kiln::graph
