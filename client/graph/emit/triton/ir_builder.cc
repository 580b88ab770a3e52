#include "client/graph/emit/triton/ir_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln::graph::triton {
namespace {

std::string Joined(const std::vector<Type>& types) {
  return fmt::format("{}", fmt::join(types, ", "));
}

std::string Parenthesised(const std::vector<Type>& types) {
  return fmt::format("({})", fmt::join(types, ", "));
}

std::vector<std::string> Assigned(const std::vector<std::string>& names,
                                  const std::vector<std::string>& values) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < names.size(); ++i) {
    texts.push_back(fmt::format("{} = {}", names[i], values[i]));
  }
  return texts;
}

}  // namespace

IrBuilder::IrBuilder(std::string name) : name_(std::move(name)) {}

Value IrBuilder::Argument(std::string_view name, const Type& type, int64_t divisibility) {
  if (!status_.ok()) return {};
  if (!body_.empty()) {
    Fail("argument", fmt::format("{} comes behind an operation", name));
    return {};
  }
  if (!IsWellFormed("argument", type)) return {};
  std::string text = fmt::format("%{}: {}", name, type);
  if (divisibility > 1) text += fmt::format(" {{tt.divisibility = {} : i32}}", divisibility);
  arguments_.push_back(std::move(text));
  return Declare(fmt::format("%{}", name), type);
}

Type IrBuilder::TypeOf(Value value) const {
  return value.id >= 0 && value.id < static_cast<int>(values_.size()) ? values_[value.id].type
                                                                      : Type{};
}

absl::StatusOr<std::string> IrBuilder::Finish() {
  if (!status_.ok()) return status_;
  return fmt::format("module {{\n  tt.func public @{}({}) {{\n{}    tt.return\n  }}\n}}\n", name_,
                     fmt::join(arguments_, ", "), body_);
}

Value IrBuilder::Fail(std::string_view operation, std::string_view what) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(fmt::format("kernel {}: {}: {}", name_, operation, what));
  }
  return {};
}

bool IrBuilder::CanUse(std::string_view operation, const Values& values) {
  if (!status_.ok()) return false;
  for (Value value : values) {
    if (value.id < 0 || value.id >= static_cast<int>(values_.size())) {
      Fail(operation, "an operand is no value of this kernel");
    } else if (std::ranges::find(open_regions_, values_[value.id].region) == open_regions_.end()) {
      Fail(operation, fmt::format("{} is used outside the region that computes it", Name(value)));
    }
  }
  return status_.ok();
}

bool IrBuilder::IsWellFormed(std::string_view operation, const Type& type) {
  if (std::string wrong = WhatIsWrong(type); !wrong.empty()) Fail(operation, wrong);
  return status_.ok();
}

Value IrBuilder::Declare(std::string name, const Type& type) {
  values_.push_back({std::move(name), type, open_regions_.back()});
  return {static_cast<int>(values_.size()) - 1};
}

IrBuilder::Values IrBuilder::DeclareMany(const std::vector<Type>& types, std::string* text) {
  const int number = names_++;
  *text =
      types.size() == 1 ? fmt::format("%{}", number) : fmt::format("%{}:{}", number, types.size());
  Values values;
  for (size_t i = 0; i < types.size(); ++i) {
    values.push_back(
        Declare(types.size() == 1 ? *text : fmt::format("%{}#{}", number, i), types[i]));
  }
  return values;
}

IrBuilder::Values IrBuilder::DeclareBlock(const std::vector<Type>& types, std::string* text) {
  Values values;
  std::vector<std::string> parts;
  for (const Type& type : types) {
    values.push_back(Declare(fmt::format("%{}", names_++), type));
    parts.push_back(fmt::format("{}: {}", Name(values.back()), type));
  }
  *text = fmt::format("^bb0({}):", fmt::join(parts, ", "));
  return values;
}

Value IrBuilder::Write(std::string_view operation, std::string_view rest, const Type& type) {
  if (!IsWellFormed(operation, type)) return {};
  Value value = Declare(fmt::format("%{}", names_++), type);
  Line(fmt::format("{} = {} {}", Name(value), operation, rest));
  return value;
}

Value IrBuilder::Convert(std::string_view operation, Value operand, const Type& type,
                         std::string_view how) {
  return Write(operation, fmt::format("{}{} : {} -> {}", Name(operand), how, TypeOf(operand), type),
               type);
}

void IrBuilder::Line(std::string_view text) {
  body_.append(2 * (open_regions_.size() + 1), ' ');
  body_ += text;
  body_ += '\n';
}

void IrBuilder::Enter(std::string_view header) {
  Line(header);
  open_regions_.push_back(regions_++);
}

void IrBuilder::Leave(std::string_view footer) {
  open_regions_.pop_back();
  Line(footer);
}

bool IrBuilder::Yields(std::string_view operation, const Values& values,
                       const std::vector<Type>& types) {
  if (!CanUse(operation, values)) return false;
  if (std::vector<Type> given = TypesOf(values); given != types) {
    Fail(operation, fmt::format("the body yields {} instead of {}", Parenthesised(given),
                                Parenthesised(types)));
  }
  return status_.ok();
}

std::string IrBuilder::Name(Value value) const { return values_[value.id].name; }

std::string IrBuilder::Names(const Values& values) const {
  std::vector<std::string> names;
  for (Value value : values) names.push_back(Name(value));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<Type> IrBuilder::TypesOf(const Values& values) const {
  std::vector<Type> types;
  for (Value value : values) types.push_back(TypeOf(value));
  return types;
}

IrBuilder::Values IrBuilder::Reduce(const Values& tensors, int axis, const CombineBody& combine) {
  const Values nothing(tensors.size());
  if (!CanUse("tt.reduce", tensors)) return nothing;
  std::vector<Type> results;
  std::vector<Type> pairs;
  for (const Type& type : TypesOf(tensors)) {
    if (axis < 0 || axis >= static_cast<int>(type.shape.size()) || type.is_pointer ||
        type.shape != TypeOf(tensors[0]).shape) {
      Fail("tt.reduce", fmt::format("{} have no axis {} to reduce together",
                                    Parenthesised(TypesOf(tensors)), axis));
      return nothing;
    }
    Type result = type;
    result.shape.erase(result.shape.begin() + axis);
    results.push_back(result);
    pairs.push_back({type.scalar});
  }
  const std::vector<Type> elements = pairs;
  pairs.insert(pairs.end(), elements.begin(), elements.end());
  std::string text;
  const Values values = DeclareMany(results, &text);
  Enter(
      fmt::format(R"({} = "tt.reduce"({}) <{{axis = {} : i32}}> ({{)", text, Names(tensors), axis));
  std::string block;
  const Values both = DeclareBlock(pairs, &block);
  Line(block);
  const auto middle = both.begin() + static_cast<std::ptrdiff_t>(tensors.size());
  const Values combined = combine(Values(both.begin(), middle), Values(middle, both.end()));
  if (!Yields("tt.reduce", combined, elements)) return nothing;
  Line(fmt::format("tt.reduce.return {} : {}", Names(combined), Joined(elements)));
  Leave(fmt::format("}}) : {} -> {}", Parenthesised(TypesOf(tensors)),
                    results.size() == 1 ? ToString(results[0]) : Parenthesised(results)));
  return values;
}

IrBuilder::Values IrBuilder::For(Value lower, Value upper, Value step, const Values& initial,
                                 const ForBody& body, int stages) {
  const Values nothing(initial.size());
  if (!CanUse("scf.for", {lower, upper, step}) || !CanUse("scf.for", initial)) return nothing;
  const Type index = TypeOf(lower);
  if (!index.IsInteger() || index.IsTensor() || index != TypeOf(upper) || index != TypeOf(step)) {
    Fail("scf.for", fmt::format("bounds and step are {}: they must be integers of one type",
                                Joined(TypesOf({lower, upper, step}))));
    return nothing;
  }
  const std::vector<Type> types = TypesOf(initial);
  std::string text;
  const Values results = DeclareMany(types, &text);
  const std::string name = fmt::format("%{}", names_++);
  std::vector<std::string> carried_names;
  std::vector<std::string> initial_names;
  for (Value value : initial) {
    carried_names.push_back(fmt::format("%{}", names_++));
    initial_names.push_back(Name(value));
  }
  std::string header =
      fmt::format("scf.for {} = {} to {} step {}", name, Name(lower), Name(upper), Name(step));
  if (!types.empty()) {
    header =
        fmt::format("{} = {} iter_args({}) -> {}", text, header,
                    fmt::join(Assigned(carried_names, initial_names), ", "), Parenthesised(types));
  }
  Enter(fmt::format("{} : {} {{", header, index));
  const Value position = Declare(name, index);
  Values carried;
  for (size_t i = 0; i < types.size(); ++i) carried.push_back(Declare(carried_names[i], types[i]));
  const Values yielded = body(position, carried);
  if (!Yields("scf.for", yielded, types)) return nothing;
  if (!types.empty()) Line(fmt::format("scf.yield {} : {}", Names(yielded), Joined(types)));
  Leave(stages > 0 ? fmt::format("}} {{tt.num_stages = {} : i32}}", stages) : "}");
  return results;
}

IrBuilder::Values IrBuilder::If(Value condition, const std::vector<Type>& types, const IfBody& then,
                                const IfBody& otherwise) {
  const Values nothing(types.size());
  if (!CanUse("scf.if", {condition})) return nothing;
  if (TypeOf(condition) != Type{Scalar::kI1}) {
    Fail("scf.if", fmt::format("the condition is {} instead of i1", TypeOf(condition)));
    return nothing;
  }
  std::string text;
  const Values results = DeclareMany(types, &text);
  const std::string header = fmt::format("scf.if {}", Name(condition));
  Enter(types.empty() ? header + " {"
                      : fmt::format("{} = {} -> {} {{", text, header, Parenthesised(types)));
  for (const IfBody* body : {&then, &otherwise}) {
    const Values yielded = (*body)();
    if (!Yields("scf.if", yielded, types)) return nothing;
    if (!types.empty()) Line(fmt::format("scf.yield {} : {}", Names(yielded), Joined(types)));
    if (body == &then) {
      open_regions_.pop_back();
      Enter("} else {");
    }
  }
  Leave("}");
  return results;
}

IrBuilder::Values IrBuilder::While(const Values& initial,
                                   const std::function<WhileCondition(const Values&)>& before,
                                   const std::function<Values(const Values&)>& body) {
  const Values nothing(initial.size());
  if (!CanUse("scf.while", initial)) return nothing;
  const std::vector<Type> types = TypesOf(initial);
  std::string text;
  const Values results = DeclareMany(types, &text);
  std::vector<std::string> carried_names;
  std::vector<std::string> initial_names;
  for (Value value : initial) {
    carried_names.push_back(fmt::format("%{}", names_++));
    initial_names.push_back(Name(value));
  }
  Enter(fmt::format("{} = scf.while ({}) : {} -> {} {{", text,
                    fmt::join(Assigned(carried_names, initial_names), ", "), Parenthesised(types),
                    Parenthesised(types)));
  Values carried;
  for (size_t i = 0; i < types.size(); ++i) carried.push_back(Declare(carried_names[i], types[i]));
  const WhileCondition condition = before(carried);
  if (!Yields("scf.while", {condition.condition}, {{Scalar::kI1}}) ||
      !Yields("scf.while", condition.forwarded, types)) {
    return nothing;
  }
  Line(fmt::format("scf.condition({}) {} : {}", Name(condition.condition),
                   Names(condition.forwarded), Joined(types)));
  open_regions_.pop_back();
  Enter("} do {");
  std::string block;
  const Values forwarded = DeclareBlock(types, &block);
  Line(block);
  const Values yielded = body(forwarded);
  if (!Yields("scf.while", yielded, types)) return nothing;
  Line(fmt::format("scf.yield {} : {}", Names(yielded), Joined(types)));
  Leave("}");
  return results;
}

}  // namespace kiln::graph::triton
