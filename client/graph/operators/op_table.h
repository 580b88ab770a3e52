// The one table of operators: what each is called, takes, gives and, where it is elementwise,
// computes. Validation, lowering, the documentation and the tests all read it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/graph/operators/expression.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

enum class OpCategory : uint8_t {
  kUnary,
  kBinary,
  kComparison,
  kLogical,
  kTernary,
  kVariadic,  // any number of inputs, folded by a binary expression
  kIdentity,
  kCast,
  kConstant,
  kMatMul,
  kReduction,
  kNormalization,
  kAttention,
  kShape,     // views: no element changes
  kMovement,  // elements change their places
  kConvolution,
  kRope,
  kFused,  // operators of language models that join several
  kUnsupported,
};
inline constexpr int kOpCategories = 19;

enum class DTypeRule : uint8_t {
  kFirst,     // the output has the first input's type
  kSecond,    // … the second one's
  kPromoted,  // … the type that holds those of all inputs, as in PyTorch
  kBool,
  kI64,
  kAttribute,  // named by an attribute: "to" or "dtype"
  kOwn,        // the operator's rule in C++ says
};

enum class BroadcastRule : uint8_t {
  kNone,     // there is one input, or the operator's rule in C++ says
  kNumPy,    // all inputs, to each other
  kToFirst,  // to the first input's shape
};

struct AttributeFacts {
  enum class Kind : uint8_t { kInt, kFloat, kString, kInts, kFloats, kDType };
  std::string name;
  Kind kind = Kind::kInt;
  bool is_required = false;
  std::optional<Attribute> otherwise;  // the default
};

inline constexpr int kAnyNumber = 1 << 20;

struct Operator {
  std::string_view name;  // ONNX's, where ONNX has the operator
  std::vector<std::string_view> aliases;
  OpCategory category = OpCategory::kUnary;
  int inputs_min = 1;
  int inputs_max = 1;
  int outputs_min = 1;
  int outputs_max = 1;
  DTypeRule dtype = DTypeRule::kFirst;
  BroadcastRule broadcast = BroadcastRule::kNone;
  std::vector<AttributeFacts> attributes;
  bool takes_bool = true;
  bool takes_integer = true;
  bool takes_float = true;
  std::string_view expression;          // text; empty: a rule in C++ lowers it
  std::string_view integer_expression;  // for integers and bool, where it differs
  std::string_view why_not;             // why kUnsupported is
  std::optional<Expression> parsed;
  std::optional<Expression> parsed_integer;
};

const std::vector<Operator>& AllOperators();
// By name or alias, as written.
const Operator* FindOperator(std::string_view name);
// "; did you mean Softmax?" for an unknown name; empty where none resembles it.
std::string DidYouMeanOperator(std::string_view name);
std::string_view NameOf(OpCategory category);

// The operation's attribute, or the table's default. Null where neither exists.
const Attribute* FindAttribute(const Operation& operation, std::string_view name);
// All of them, with defaults.
Attributes WithDefaults(const Operator& op, const Attributes& given);

}  // namespace kiln::graph
