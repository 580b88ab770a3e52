#include "client/graph/plan/section_form.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace kiln::graph {
namespace {

// A number is 8 bytes; whatever has parts is its length, then those.
class FormText {
 public:
  // `values`: ascending, the places of which the text has.
  explicit FormText(const std::vector<int>& values) : values_(values) {}

  void AddValue(const Value& value) {
    Add(static_cast<int64_t>(value.type));
    Add(static_cast<int64_t>(value.is_constant) + 2 * static_cast<int64_t>(value.bytes != nullptr));
    Add(value.shape);
    Add(static_cast<int64_t>(value.strides.has_value()));
    if (value.strides) Add(*value.strides);
  }

  void AddOperation(const Operation& operation) {
    Add(operation.name);
    AddPlaces(operation.inputs);
    AddPlaces(operation.outputs);
    Add(operation.attributes.size());
    for (const auto& [name, attribute] : operation.attributes) {
      Add(name);
      Add(attribute.index());
      std::visit([this](const auto& held) { Add(held); }, attribute);
    }
  }

  void AddPlaces(const std::vector<int>& values) {
    Add(values.size());
    for (const int value : values) {
      const auto place = std::ranges::lower_bound(values_, value);
      Add(value == kOmitted ? -1 : place - values_.begin());
    }
  }

  template <typename T>
  requires std::is_arithmetic_v<T>
  void Add(T number) {
    static_assert(sizeof(T) == 8);
    text_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }

  std::string Take() && { return std::move(text_); }

 private:
  void Add(std::string_view text) {
    Add(text.size());
    text_ += text;
  }
  void Add(const Size& size) {
    Add(size.terms().size());
    for (const Size::Term& term : size.terms()) {
      Add(term.factor);
      Add(term.symbols.size());
      for (const int symbol : term.symbols) Add(int64_t{symbol});
    }
  }
  template <typename T>
  void Add(const std::vector<T>& all) {
    Add(all.size());
    for (const T& each : all) Add(each);
  }

  const std::vector<int>& values_;
  std::string text_;
};

std::vector<int> ValuesOf(const Segment& segment, const Section& section) {
  std::vector<int> values;
  for (const int number : section.operations) {
    const Operation& operation = segment.operations[static_cast<size_t>(number)];
    values.insert(values.end(), operation.inputs.begin(), operation.inputs.end());
    values.insert(values.end(), operation.outputs.begin(), operation.outputs.end());
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  std::erase(values, kOmitted);
  return values;
}

}  // namespace

SectionForm FormOf(const Segment& segment, const Section& section) {
  SectionForm form{"", ValuesOf(segment, section)};
  FormText text(form.values);
  for (const int value : form.values) text.AddValue(segment.values[static_cast<size_t>(value)]);
  for (const int number : section.operations) {
    text.AddOperation(segment.operations[static_cast<size_t>(number)]);
    text.Add(static_cast<int64_t>(number == section.root));
  }
  text.AddPlaces(section.inputs);
  text.AddPlaces(section.outputs);
  form.text = std::move(text).Take();
  return form;
}

}  // namespace kiln::graph
