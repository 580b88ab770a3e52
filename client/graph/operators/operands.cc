#include "client/graph/operators/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "client/graph/operators/constant_elements.h"
#include "client/graph/segment/shape.h"
#include "storage/base/status.h"

namespace kiln::graph {
namespace {

std::vector<int64_t> AsIntegers(const std::vector<double>& numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace

bool Operands::Has(size_t input) const {
  return input < operation_.inputs.size() && operation_.inputs[input] != kOmitted;
}

const Value& Operands::Input(size_t input) const {
  return segment_.values[static_cast<size_t>(operation_.inputs[input])];
}

const Value& Operands::Output(size_t output) const {
  return segment_.values[static_cast<size_t>(operation_.outputs[output])];
}

const Attribute* Operands::Find(std::string_view name) const {
  const auto found = operation_.attributes.find(std::string(name));
  return found == operation_.attributes.end() ? nullptr : &found->second;
}

int64_t Operands::Int(std::string_view name, int64_t otherwise) const {
  const Attribute* attribute = Find(name);
  const auto* integer = attribute == nullptr ? nullptr : std::get_if<int64_t>(attribute);
  return integer == nullptr ? otherwise : *integer;
}

double Operands::Float(std::string_view name, double otherwise) const {
  const Attribute* attribute = Find(name);
  if (attribute == nullptr) return otherwise;
  if (const auto* number = std::get_if<double>(attribute)) return *number;
  return static_cast<double>(Int(name, static_cast<int64_t>(otherwise)));
}

std::string Operands::String(std::string_view name, std::string_view otherwise) const {
  const Attribute* attribute = Find(name);
  const auto* text = attribute == nullptr ? nullptr : std::get_if<std::string>(attribute);
  return text == nullptr ? std::string(otherwise) : *text;
}

std::optional<DType> Operands::Type(std::string_view name) const {
  const Attribute* attribute = Find(name);
  const auto* text = attribute == nullptr ? nullptr : std::get_if<std::string>(attribute);
  return text == nullptr ? std::nullopt : ParseDType(*text);
}

std::optional<std::vector<int64_t>> Operands::Ints(std::string_view name) const {
  const Attribute* attribute = Find(name);
  if (attribute == nullptr) return std::nullopt;
  if (const auto* integers = std::get_if<std::vector<int64_t>>(attribute)) return *integers;
  if (const auto* one = std::get_if<int64_t>(attribute)) return std::vector<int64_t>{*one};
  if (const auto* numbers = std::get_if<std::vector<double>>(attribute)) {
    return AsIntegers(*numbers);  // an empty list has no kind of its own
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<std::vector<double>>> Operands::NumbersOrInput(std::string_view name,
                                                                            size_t input) const {
  if (const Attribute* attribute = Find(name)) {
    if (const auto* numbers = std::get_if<std::vector<double>>(attribute)) return *numbers;
    if (const auto* number = std::get_if<double>(attribute)) return std::vector<double>{*number};
    if (const auto integers = Ints(name)) {
      return std::vector<double>(integers->begin(), integers->end());
    }
  }
  if (!Has(input)) return std::nullopt;
  auto elements = ConstantElements(Input(input));
  if (!elements) {
    return Error(
        fmt::format("input {} ({}) has to be a constant whose elements are given", input, name));
  }
  return elements;
}

absl::StatusOr<std::optional<std::vector<int64_t>>> Operands::IntsOrInput(std::string_view name,
                                                                          size_t input) const {
  if (auto integers = Ints(name)) return integers;
  KILN_ASSIGN_OR_RETURN(const auto numbers, NumbersOrInput(name, input));
  if (!numbers) return std::nullopt;
  // 2^63 - 1, "up to the end", rounds up to 2^63.
  std::vector<int64_t> integers;
  for (const double number : *numbers) {
    if (std::isnan(number)) return Error(fmt::format("{} has a NaN", name));
    integers.push_back(number >= 0x1p62    ? INT64_MAX / 2
                       : number <= -0x1p62 ? -(INT64_MAX / 2)
                                           : static_cast<int64_t>(number));
  }
  return integers;
}

absl::StatusOr<size_t> Operands::Axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    return Error(fmt::format("axis {} is not within {} dimensions", axis, rank));
  }
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

absl::Status Operands::Error(std::string_view message) const {
  return absl::InvalidArgumentError(fmt::format("{}: {}", operation_.name, message));
}

absl::Status Operands::Missing(std::string_view message) const {
  return absl::UnimplementedError(fmt::format("{}: {}", operation_.name, message));
}

absl::Status Operands::MayBeEmpty(const Size& extent) const {
  return Missing(fmt::format("there are no elements to repeat where {} is 0",
                             extent.ToString(segment_.symbols)));
}

std::string Operands::Text(const Shape& shape) const { return ShapeText(shape, segment_.symbols); }

namespace {

// Its least value, or less: that of each term for itself.
double LeastOf(const Size& size, const std::vector<Symbol>& symbols) {
  double least = 0;
  for (const Size::Term& term : size.terms()) {
    auto part = static_cast<double>(term.factor);
    for (const int number : term.symbols) {
      const Symbol& symbol = symbols[static_cast<size_t>(number)];
      part *= static_cast<double>(term.factor < 0 ? symbol.max : symbol.min);
    }
    least += part;
  }
  return least;
}

// The size with each symbol's number above its min in the symbol's place.
Size AboveMin(const Size& size, const std::vector<Symbol>& symbols) {
  Size above = 0;
  for (const Size::Term& term : size.terms()) {
    Size part = term.factor;
    for (const int symbol : term.symbols) {
      part *= Size::Of(symbol) + Size(symbols[static_cast<size_t>(symbol)].min);
    }
    above += part;
  }
  return above;
}

constexpr size_t kFactorsMax = 8;  // of a term: AboveMin may make 2^8 of it

}  // namespace

bool IsAtMost(const Size& one, const Size& other, const std::vector<Symbol>& symbols) {
  const auto least = one.Constant();
  const auto most = least ? other.Constant() : std::nullopt;
  if (most) return *least <= *most;  // as most are
  const Size difference = other - one;
  if (!difference.IsValid()) return false;
  if (LeastOf(difference, symbols) >= 0) return true;
  if (std::ranges::any_of(difference.terms(), [](const Size::Term& term) {
        return term.symbols.size() > kFactorsMax;
      })) {
    return false;
  }
  // Terms that cannot be least at once, as in (n - 1) * (n - 1), cancel each other above the min.
  const Size above = AboveMin(difference, symbols);
  std::vector<Symbol> rest = symbols;
  for (Symbol& symbol : rest) {
    symbol.max -= symbol.min;
    symbol.min = 0;
  }
  return above.IsValid() && LeastOf(above, rest) >= 0;
}

std::optional<Size> Quotient(const Size& size, const Size& divisor) {
  if (size == divisor && size.Constant() != 0) return Size(1);
  if (divisor.terms().size() != 1) return std::nullopt;
  const Size::Term& by = divisor.terms()[0];
  Size quotient = 0;
  for (const Size::Term& term : size.terms()) {
    if (term.factor % by.factor != 0) return std::nullopt;
    std::vector<int> symbols = term.symbols;
    for (const int symbol : by.symbols) {
      const auto found = std::find(symbols.begin(), symbols.end(), symbol);
      if (found == symbols.end()) return std::nullopt;
      symbols.erase(found);
    }
    Size part = term.factor / by.factor;
    for (const int symbol : symbols) part *= Size::Of(symbol);
    quotient += part;
  }
  return quotient;
}

std::optional<Size> FloorQuotient(const Size& size, int64_t divisor) {
  if (divisor < 1) return std::nullopt;
  int64_t constant = 0;
  for (const Size::Term& term : size.terms()) {
    if (term.symbols.empty()) constant = term.factor;
  }
  const int64_t rest = ((constant % divisor) + divisor) % divisor;
  return Quotient(size - Size(rest), divisor);
}

std::optional<Shape> BroadcastShape(const Shape& one, const Shape& other) {
  if (one.size() < other.size()) return BroadcastShape(other, one);
  Shape shape = one;
  const size_t missing = one.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) {
    Size& extent = shape[missing + i];
    if (extent == other[i] || other[i] == Size(1)) continue;
    if (extent != Size(1)) return std::nullopt;
    extent = other[i];
  }
  return shape;
}

}  // namespace kiln::graph
