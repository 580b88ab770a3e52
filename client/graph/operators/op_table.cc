#include "client/graph/operators/op_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "client/graph/operators/op_rows.h"
#include "storage/base/nearest_word.h"

namespace kiln::graph {
namespace {

struct CategoryFacts {
  OpCategory category;
  std::string_view name;
  std::string_view inputs;
  std::string_view types;
  DTypeRule dtype;
  BroadcastRule broadcast;
  std::string_view attributes = "";
};

using Cat = OpCategory;
using Rule = DTypeRule;
using Spread = BroadcastRule;
constexpr std::array<CategoryFacts, kOpCategories> kCategoryFacts = {{
    {Cat::kUnary, "unary", "1", "f", Rule::kFirst, Spread::kNone},
    {Cat::kBinary, "binary", "2", "if", Rule::kPromoted, Spread::kNumPy},
    {Cat::kComparison, "comparison", "2", "if", Rule::kBool, Spread::kNumPy},
    {Cat::kLogical, "logical", "2", "b", Rule::kBool, Spread::kNumPy},
    {Cat::kTernary, "ternary", "1..3", "if", Rule::kFirst, Spread::kNumPy},
    {Cat::kVariadic, "variadic", "1..", "if", Rule::kPromoted, Spread::kNumPy},
    {Cat::kIdentity, "identity", "1", "bif", Rule::kFirst, Spread::kToFirst},
    {Cat::kCast, "cast", "1", "bif", Rule::kAttribute, Spread::kToFirst},
    {Cat::kConstant, "constant", "1", "bif", Rule::kFirst, Spread::kNone},
    {Cat::kMatMul, "matmul", "1", "if", Rule::kFirst, Spread::kNone},
    {Cat::kReduction, "reduction", "1..2", "if", Rule::kFirst, Spread::kNone,
     "axes:ints keepdims=1 noop_with_empty_axes=0"},
    {Cat::kNormalization, "normalization", "1", "f", Rule::kFirst, Spread::kNone},
    {Cat::kAttention, "attention", "3", "bif", Rule::kFirst, Spread::kNone},
    {Cat::kShape, "shape", "1", "bif", Rule::kFirst, Spread::kNone},
    {Cat::kMovement, "movement", "1", "bif", Rule::kFirst, Spread::kNone},
    {Cat::kConvolution, "convolution", "2..3", "if", Rule::kFirst, Spread::kNone},
    {Cat::kRope, "rope", "1", "f", Rule::kFirst, Spread::kNone},
    {Cat::kFused, "fused", "1", "bif", Rule::kFirst, Spread::kNone},
    {Cat::kUnsupported, "unsupported", "0..", "bif", Rule::kOwn, Spread::kNone},
}};

const CategoryFacts& FactsOf(OpCategory category) {
  return kCategoryFacts[static_cast<size_t>(category)];
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t blank = std::min(text.find(' '), text.size());
    if (blank > 0) words.push_back(text.substr(0, blank));
    text.remove_prefix(std::min(blank + 1, text.size()));
  }
  return words;
}

// "2", "1..3", "1..".
void ReadRange(std::string_view text, int& min, int& max) {
  const size_t dots = text.find("..");
  const auto number = [](std::string_view digits, int otherwise) {
    int value = otherwise;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  min = number(text.substr(0, dots), 0);
  max = dots == std::string_view::npos ? min : number(text.substr(dots + 2), kAnyNumber);
}

AttributeFacts::Kind KindOf(std::string_view name) {
  using Kind = AttributeFacts::Kind;
  if (name == "int") return Kind::kInt;
  if (name == "float") return Kind::kFloat;
  if (name == "string") return Kind::kString;
  if (name == "ints") return Kind::kInts;
  if (name == "floats") return Kind::kFloats;
  return Kind::kDType;
}

// "alpha=1.0", "mode='linear'", "perm:ints", "to:dtype!".
AttributeFacts ReadAttribute(std::string_view text) {
  AttributeFacts facts;
  const size_t sign = text.find_first_of("=:");
  facts.name = text.substr(0, sign);
  std::string_view rest = text.substr(sign + 1);
  if (text[sign] == ':') {
    facts.is_required = rest.back() == '!';
    if (facts.is_required) rest.remove_suffix(1);
    facts.kind = KindOf(rest);
  } else if (rest.front() == '\'') {
    facts.kind =
        facts.name == "dtype" ? AttributeFacts::Kind::kDType : AttributeFacts::Kind::kString;
    facts.otherwise = std::string(rest.substr(1, rest.size() - 2));
  } else if (rest.find('.') == std::string_view::npos && rest.find('e') == std::string_view::npos) {
    int64_t integer = 0;
    std::from_chars(rest.data(), rest.data() + rest.size(), integer);
    facts.otherwise = integer;
  } else {
    double number = 0;
    std::from_chars(rest.data(), rest.data() + rest.size(), number);
    facts.kind = AttributeFacts::Kind::kFloat;
    facts.otherwise = number;
  }
  return facts;
}

std::optional<Expression> ParsedText(std::string_view text) {
  if (text.empty()) return std::nullopt;
  auto expression = Expression::Parse(text);
  // A test parses each row, so that a wrong one does not get here.
  return expression.ok() ? std::optional(*std::move(expression)) : std::nullopt;
}

Operator ReadRow(const OpRow& row) {
  const CategoryFacts& category = FactsOf(row.category);
  const auto either = [](std::string_view own, std::string_view common) {
    return own.empty() ? common : own;
  };
  Operator op;
  op.name = row.name;
  op.aliases = Words(row.aliases);
  op.category = row.category;
  ReadRange(either(row.inputs, category.inputs), op.inputs_min, op.inputs_max);
  ReadRange(row.outputs, op.outputs_min, op.outputs_max);
  op.dtype = row.dtype == DTypeRule::kOwn ? category.dtype : row.dtype;
  op.broadcast = row.name == "PRelu" ? BroadcastRule::kToFirst : category.broadcast;
  for (const std::string_view text : Words(either(row.attributes, category.attributes))) {
    op.attributes.push_back(ReadAttribute(text));
  }
  const std::string_view types = either(row.types, category.types);
  op.takes_bool = types.find('b') != std::string_view::npos;
  op.takes_integer = types.find('i') != std::string_view::npos;
  op.takes_float = types.find('f') != std::string_view::npos;
  op.expression = row.expression;
  op.integer_expression = row.integer;
  op.why_not = row.why_not;
  op.parsed = ParsedText(row.expression);
  op.parsed_integer = ParsedText(row.integer);
  return op;
}

std::vector<Operator> ReadRows() {
  std::vector<Operator> all;
  for (const auto rows : {ElementwiseRows(), StructuralRows(), UnsupportedRows()}) {
    for (const OpRow& row : rows) all.push_back(ReadRow(row));
  }
  return all;
}

using OperatorsByName = std::map<std::string_view, const Operator*>;
const OperatorsByName& AllNames() {
  static const OperatorsByName names = [] {
    OperatorsByName made;
    for (const Operator& op : AllOperators()) {
      made.emplace(op.name, &op);
      for (const std::string_view alias : op.aliases) made.emplace(alias, &op);
    }
    return made;
  }();
  return names;
}

}  // namespace

const std::vector<Operator>& AllOperators() {
  static const std::vector<Operator> all = ReadRows();
  return all;
}

const Operator* FindOperator(std::string_view name) {
  const auto found = AllNames().find(name);
  return found == AllNames().end() ? nullptr : found->second;
}

std::string DidYouMeanOperator(std::string_view name) {
  std::vector<std::string_view> known;
  for (const auto& [each, op] : AllNames()) known.push_back(each);
  return DidYouMean(name, known);
}

std::string_view NameOf(OpCategory category) { return FactsOf(category).name; }

const Attribute* FindAttribute(const Operation& operation, std::string_view name) {
  const auto given = operation.attributes.find(std::string(name));
  if (given != operation.attributes.end()) return &given->second;
  const Operator* op = FindOperator(operation.name);
  if (op == nullptr) return nullptr;
  const auto facts = std::ranges::find(op->attributes, name, &AttributeFacts::name);
  return facts != op->attributes.end() && facts->otherwise ? &*facts->otherwise : nullptr;
}

Attributes WithDefaults(const Operator& op, const Attributes& given) {
  Attributes all = given;
  for (const AttributeFacts& facts : op.attributes) {
    if (facts.otherwise) all.emplace(facts.name, *facts.otherwise);
  }
  return all;
}

}  // namespace kiln::graph
