#include <fmt/format.h>

#include <algorithm>

#include "client/graph/emit/c_functions.h"
#include "client/graph/emit/c_printer.h"

namespace kiln::graph {

// A loop reads again what it needs: no element that it reads may have been written before.
absl::Status CPrinter::CheckMemory(const std::vector<int>& group) {
  for (const int store : group) {
    for (int load = 0; load < store; ++load) {
      if (At(load).opcode != Opcode::kLoad || !Uses(store, load)) continue;
      const int buffer = At(load).buffer;
      const bool is_same_loop = std::ranges::none_of(group, [&](int other) {
        return At(other).buffer == buffer && !AxesOf(other).empty() &&
               At(other).operands[0] != At(load).operands[0];
      });
      if (!written_.contains(buffer) && is_same_loop) continue;
      return absl::UnimplementedError(
          fmt::format("C: buffer {} is read after a loop that writes it; write to another buffer",
                      program_.buffers[static_cast<size_t>(buffer)].name));
    }
  }
  for (const int store : group) written_.insert(At(store).buffer);
  return absl::OkStatus();
}

std::string CPrinter::Load(int value) {
  const Instruction& load = At(value);
  const bool is_bool = load.type == DType::kBool;
  if (IsWide(value)) return WideElement(value) + (is_bool ? " != 0" : "");
  std::vector<std::string> operands;
  for (const int operand : load.operands) operands.push_back(Use(operand));
  const std::string element =
      fmt::format("{}[{}]{}", BufferOf(load), operands[0], is_bool ? " != 0" : "");
  if (operands.size() == 1) return element;
  return is_bool ? fmt::format("{} && {}", operands[1], element)
                 : fmt::format("{} ? {} : 0", operands[1], element);
}

// All values first, then the stores: a buffer may be read and written.
void CPrinter::PrintStores(const std::vector<int>& group) {
  roots_ = group;
  InLoops(AxesOf(group.front()), [&] {
    std::vector<std::vector<std::string>> operands;
    for (const int store : group) {
      operands.emplace_back();
      const std::vector<int>& values = At(store).operands;
      // The address of a wide store is that of its first element.
      if (IsWide(store)) operands.back().emplace_back();
      for (size_t i = IsWide(store) ? 1 : 0; i < values.size(); ++i) {
        operands.back().push_back(Use(values[i]));
      }
    }
    for (size_t i = 0; i < group.size(); ++i) PrintStore(group[i], operands[i]);
  });
}

void CPrinter::PrintStore(int value, const std::vector<std::string>& operands) {
  const Instruction& store = At(value);
  const std::string buffer = BufferOf(store);
  std::string text = fmt::format(
      "{} = {};", IsWide(value) ? WideElement(value) : fmt::format("{}[{}]", buffer, operands[0]),
      operands[1]);
  if (store.store != StoreKind::kPlain) {
    const std::string name = AtomicStoreName(store.store, store.type);
    declarations_.functions[name] = AtomicStoreFunction(dialect_, store.store, store.type);
    text = fmt::format("{}({} + {}, {});", name, buffer, operands[0], operands[1]);
  }
  if (operands.size() > 2) text = fmt::format("if ({}) {}", operands[2], text);
  const bool is_for_one_thread = layout_.shares_positions && AxesOf(value).empty();
  if (is_for_one_thread) text = fmt::format("if (thread == 0) {}", text);
  Line(open_.back(), text);
}

// The type of all elements of a wide load or store: "kiln_wide_4f32".
std::string CPrinter::WideType(const Instruction& access) const {
  return fmt::format("kiln_wide_{}{}", layout_.elements, CStorageType(access.type));
}

// The element at the position: "w3.e[u]".
std::string CPrinter::WideElement(int access) const { return fmt::format("w{}.e[u]", access); }

void CPrinter::DeclareWideTypes() {
  for (size_t i = 0; i < layout_.is_wide.size(); ++i) {
    if (!layout_.is_wide[i]) continue;
    const Instruction& access = program_.instructions[i];
    declarations_.types.insert(
        fmt::format("typedef struct __attribute__((aligned({}))) {{ {} e[{}]; }} {};\n",
                    layout_.elements * FactsOf(access.type).bits / 8, CStorageType(access.type),
                    layout_.elements, WideType(access)));
  }
}

// Wide loads, the body for each position of the group, wide stores.
std::string CPrinter::InGroups(const std::string& body) const {
  const std::vector<std::optional<LinearIndex>> indexes = LinearIndexesOf(program_);
  std::string loads;
  std::string stores;
  for (int i = 0; i < static_cast<int>(layout_.is_wide.size()); ++i) {
    const bool is_needed = std::ranges::any_of(stores_, [&](int store) { return Uses(store, i); });
    if (!IsWide(i) || !is_needed) continue;
    const Instruction& access = At(i);
    const std::string type = WideType(access);
    const std::string at = FirstElement(*indexes[static_cast<size_t>(access.operands[0])]);
    if (access.opcode == Opcode::kLoad) {
      loads += fmt::format("  const {0} w{1} = *(const {2}{0}*)({3} + {4});\n", type, i,
                           dialect_.global, BufferOf(access), at);
    } else {
      loads += fmt::format("  {} w{};\n", type, i);
      stores += fmt::format("  *({}{}*)({} + {}) = w{};\n", dialect_.global, type, BufferOf(access),
                            at, i);
    }
  }
  return fmt::format(
      "{0}#pragma unroll\n  for (u32 u = 0; u < {1}; ++u) {{\n    const {2} position = first + "
      "u;\n{3}  }}\n{4}",
      loads, layout_.elements, position_type_, body, stores);
}

// The index at the first position of a group.
std::string CPrinter::FirstElement(const LinearIndex& index) const {
  if (IsDense(index, program_)) return "first";
  std::string text = Text(index.offset);
  for (size_t axis = 0; axis < index.strides.size(); ++axis) {
    if (index.strides[axis] == Size(0)) continue;
    text += fmt::format(" + {} * {}", Text(index.strides[axis]),
                        AxisAt(static_cast<int>(axis), "first"));
  }
  return text;
}

}  // namespace kiln::graph
