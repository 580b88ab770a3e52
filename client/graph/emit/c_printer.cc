#include "client/graph/emit/c_printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/graph/emit/c_functions.h"
#include "client/graph/sections/section_types.h"

namespace kiln::graph {
namespace {

constexpr int kBlockPositionsMax = 1 << 12;  // of all threads of a block

ThreadLayout LayoutOf(const LoopProgram& program, int threads) {
  ThreadLayout layout = LayoutFor(program, kThreads.elements_max);
  if (threads > 0) layout.threads = threads;
  return layout;
}

}  // namespace

std::string CParameters(const LoopProgram& program, const CDialect& dialect) {
  std::string text;
  const auto add = [&](const std::string& parameter) {
    text += (text.empty() ? "" : ", ") + parameter;
  };
  for (const Buffer& buffer : program.buffers) {
    const std::string_view type = CStorageType(buffer.type);
    add(buffer.is_written ? fmt::format("{}{}* {}", dialect.global, type, CBuffer(buffer.name))
                          : fmt::format("{}const {}* {} {}", dialect.global, type, dialect.restrict,
                                        CBuffer(buffer.name)));
  }
  for (const Symbol& symbol : program.symbols) add("i64 " + CSymbol(symbol.name));
  return text;
}

std::string WithDeclarations(const CDialect& dialect, const CDeclarations& declarations,
                             const std::string& kernel) {
  std::string types;
  std::string functions;
  for (const std::string& type : declarations.types) types += type;
  for (const auto& [name, function] : declarations.functions) functions += function;
  return fmt::format("{}{}{}{}\n{}", dialect.prelude, types,
                     ConversionsOf(dialect, functions + kernel), functions, kernel);
}

CPrinter::CPrinter(const LoopProgram& program, const CDialect& dialect, const EmitOptions& options,
                   int threads)
    : program_(program),
      dialect_(dialect),
      expression_(dialect, options.fast_math),
      axes_of_(InnerAxesOf(program)),
      layout_(LayoutOf(program, threads)),
      total_(1) {
  for (const Axis& axis : program.axes) {
    if (!axis.is_inner) total_ *= axis.extent;
  }
  position_type_ = IndexType(total_);
  FindUses();
}

absl::StatusOr<EmittedKernel> CPrinter::Print() {
  auto body = Body(false);
  if (!body.ok()) return body.status();
  auto groups = Groups();
  if (!groups.ok()) return groups.status();
  EmittedKernel kernel;
  kernel.entry = program_.name;
  kernel.threads = layout_.threads;
  kernel.grid = {Grid()};
  kernel.text = WithDeclarations(dialect_, declarations_, Kernel(*body, *groups));
  return kernel;
}

GridFactor CPrinter::Grid() const {
  return {total_, layout_.shares_positions ? 1 : layout_.threads * layout_.elements};
}

// Empty where a thread has one position.
absl::StatusOr<std::string> CPrinter::Groups() {
  if (layout_.elements == 1) return "";
  DeclareWideTypes();
  auto body = Body(true);
  if (body.ok()) *body = InGroups(*body);
  return body;
}

absl::StatusOr<std::string> CPrinter::Body(bool is_in_group) {
  is_in_group_ = is_in_group;
  written_.clear();
  known_axes_.clear();
  open_ = {Scope{}};
  if (layout_.elements > 1) open_[0].indentation = is_in_group ? 4 : 6;
  for (size_t at = 0; at < stores_.size();) {
    std::vector<int> group = {stores_[at++]};
    const auto& axes = AxesOf(group.front());
    while (at < stores_.size() && AxesOf(stores_[at]) == axes) group.push_back(stores_[at++]);
    if (absl::Status status = CheckMemory(group); !status.ok()) return status;
    PrintStores(group);
  }
  return open_[0].text;
}

std::string CPrinter::Kernel(const std::string& body, const std::string& groups) const {
  std::string text =
      fmt::format("{} {}({}) {{\n", fmt::format(fmt::runtime(dialect_.kernel), layout_.threads),
                  program_.name, CParameters(program_, dialect_));
  const std::string total = fmt::format("({}){}", position_type_, Text(total_));
  if (layout_.shares_positions) {
    text += fmt::format("  const u32 thread = (u32){};\n  const {} position = ({}){};\n",
                        dialect_.thread, position_type_, position_type_, dialect_.block);
    return fmt::format("{}  if (position >= {}) return;\n{}}}\n", text, total, body);
  }
  const std::string number = fmt::format("({}){} * {} + ({}){}", position_type_, dialect_.block,
                                         layout_.threads, position_type_, dialect_.thread);
  if (layout_.elements == 1) {
    return fmt::format("{}  const {} position = {};\n  if (position >= {}) return;\n{}}}\n", text,
                       position_type_, number, total, body);
  }
  text += fmt::format("  const {} first = ({}) * {};\n  if (first >= {}) return;\n", position_type_,
                      number, layout_.elements, total);
  return fmt::format("{}{}{}}}\n", text, Tail(body, "return"), groups);
}

// The last positions, where they are less than a group.
std::string CPrinter::Tail(const std::string& body, std::string_view end) const {
  if (!layout_.has_tail) return "";
  return fmt::format(
      "  if (({3}){0} - first < {1}) {{\n    for ({3} position = first; position < ({3}){0}; "
      "++position) {{\n{2}    }}\n    {4};\n  }}\n",
      Text(total_), layout_.elements, body, position_type_, end);
}

// The type of positions that are fewer than this many; a block's last ones may be beyond.
std::string_view CPrinter::IndexType(const Size& positions) const {
  std::vector<int64_t> largest;
  for (const Symbol& symbol : program_.symbols) largest.push_back(symbol.max);
  const bool grows = std::ranges::all_of(positions.terms(),
                                         [](const Size::Term& term) { return term.factor >= 0; });
  const int64_t max = positions.Evaluate(largest).value_or(INT64_MAX);
  return grows && max < INT32_MAX - kBlockPositionsMax ? "u32" : "u64";
}

// Which values each instruction needs, itself among them.
void CPrinter::FindUses() {
  const size_t count = program_.instructions.size();
  uses_.assign(count, std::vector<bool>(count, false));
  for (size_t i = 0; i < count; ++i) {
    uses_[i][i] = true;
    for (const int operand : program_.instructions[i].operands) {
      const auto& inherited = uses_[static_cast<size_t>(operand)];
      for (size_t j = 0; j <= static_cast<size_t>(operand); ++j) {
        if (inherited[j]) uses_[i][j] = true;
      }
    }
    if (program_.instructions[i].opcode == Opcode::kStore) stores_.push_back(static_cast<int>(i));
  }
}

// The number of the outermost open scope in which the value is known.
size_t CPrinter::DepthOf(int value) const {
  const auto& axes = AxesOf(value);
  size_t depth = 0;
  while (!std::ranges::includes(open_[depth].axes, axes)) ++depth;
  return depth;
}

void CPrinter::Line(Scope& scope, std::string_view line) const {
  scope.text += fmt::format("{:{}}{}\n", "", scope.indentation, line);
}

// The variable or literal that has the value; computes it where it is new.
std::string CPrinter::Use(int value) {
  const Instruction& instruction = At(value);
  if (instruction.opcode == Opcode::kConstant) return CConstant(dialect_, instruction);
  if (instruction.opcode == Opcode::kSize) return Text(instruction.size);
  if (instruction.opcode == Opcode::kAxis) return AxisVariable(instruction.axis);
  for (const Scope& scope : open_) {
    const auto found = scope.names.find(value);
    if (found != scope.names.end()) return found->second;
  }
  const size_t depth = DepthOf(value);
  if (instruction.opcode == Opcode::kReduce) {
    Reduce(value, depth);
  } else {
    std::string text;
    if (instruction.opcode == Opcode::kLoad) {
      text = Load(value);
    } else {
      std::vector<std::string> operands;
      for (const int operand : instruction.operands) operands.push_back(Use(operand));
      text = expression_.Of(instruction, OperandType(instruction), operands);
    }
    Line(open_[depth], fmt::format("const {} v{} = {};", CType(instruction.type), value, text));
    open_[depth].names[value] = fmt::format("v{}", value);
  }
  return fmt::format("v{}", value);
}

DType CPrinter::OperandType(const Instruction& instruction) const {
  // The condition of a select says nothing about its operands.
  return At(instruction.operands[instruction.opcode == Opcode::kSelect ? 1 : 0]).type;
}

std::string CPrinter::AxisVariable(int axis) {
  const std::string name = fmt::format("a{}", axis);
  if (program_.axes[static_cast<size_t>(axis)].is_inner || !known_axes_.insert(axis).second) {
    return name;
  }
  const bool is_same_row = is_in_group_ && layout_.group_axis >= 0;
  Line(open_[0],
       fmt::format("const i64 {} = {}{};", name, AxisAt(axis, is_same_row ? "first" : "position"),
                   is_same_row && axis == layout_.group_axis ? " + u" : ""));
  return name;
}

// On an outer axis, of a position on all of them.
std::string CPrinter::AxisAt(int axis, std::string_view position) const {
  Size stride = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < program_.axes.size(); ++i) {
    if (!program_.axes[i].is_inner) stride *= program_.axes[i].extent;
  }
  std::string text(position);
  if (stride != Size(1)) text += fmt::format(" / ({}){}", position_type_, Text(stride));
  if (axis > 0) text += fmt::format(" % ({}){}", position_type_, Extent(axis));
  return fmt::format("(i64)({})", text);
}

void CPrinter::InBlock(std::string_view head, const std::function<void()>& body) {
  Scope inside;
  inside.axes = open_.back().axes;
  inside.indentation = open_.back().indentation + 2;
  open_.push_back(std::move(inside));
  body();
  const Scope scope = std::move(open_.back());
  open_.pop_back();
  Line(open_.back(), fmt::format("{} {{", head));
  open_.back().text += scope.text;
  Line(open_.back(), "}");
}

void CPrinter::InLoops(const std::vector<int>& axes, const std::function<void()>& body) {
  if (axes.empty()) return body();
  if (layout_.shares_positions && open_.size() == 1) return InSharedLoop(axes, body);
  for (const int axis : axes) {
    Scope scope;
    scope.axes = open_.back().axes;
    scope.axes.insert(std::ranges::upper_bound(scope.axes, axis), axis);
    scope.indentation = open_.back().indentation + 2;
    open_.push_back(std::move(scope));
  }
  body();
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const Scope scope = std::move(open_.back());
    open_.pop_back();
    Line(open_.back(),
         fmt::format("for (i64 a{0} = 0; a{0} < {1}; ++a{0}) {{", *axis, Extent(*axis)));
    open_.back().text += scope.text;
    Line(open_.back(), "}");
  }
}

// One loop over the positions of all axes. Each thread of the block begins at its number.
void CPrinter::InSharedLoop(const std::vector<int>& axes, const std::function<void()>& body) {
  Scope inside;
  inside.axes = axes;
  inside.indentation = open_[0].indentation + 2;
  open_.push_back(std::move(inside));
  body();
  const Scope scope = std::move(open_.back());
  open_.pop_back();
  Size positions = 1;
  for (const int axis : axes) positions *= program_.axes[static_cast<size_t>(axis)].extent;
  const std::string_view type = IndexType(positions);
  Line(open_[0], fmt::format("for ({0} i = thread; i < ({0}){1}; i += {2}) {{", type,
                             Text(positions), layout_.threads));
  std::string left = "i";
  for (size_t number = axes.size(); number-- > 0;) {
    const std::string extent = fmt::format("({}){}", type, Extent(axes[number]));
    const std::string position = number == 0 ? left : fmt::format("{} % {}", left, extent);
    open_[0].text += fmt::format("{:{}}const i64 a{} = (i64)({});\n", "", scope.indentation,
                                 axes[number], position);
    left = fmt::format("{} / {}", left, extent);
  }
  open_[0].text += scope.text;
  Line(open_[0], "}");
}

}  // namespace kiln::graph
