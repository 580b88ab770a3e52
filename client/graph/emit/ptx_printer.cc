#include "client/graph/emit/ptx_printer.h"

#include <algorithm>

#include "client/graph/program/opcode.h"
#include "client/graph/sections/section_types.h"

namespace kiln::graph {

PtxPrinter::PtxPrinter(const LoopProgram& program, const EmitOptions& options)
    : program_(program),
      layout_(LayoutFor(program, kThreads.ptx_elements_max)),
      body_(program.instructions.size() * static_cast<size_t>(layout_.elements),
            options.fast_math) {}

absl::StatusOr<EmittedKernel> PtxPrinter::Print() {
  Size total = 1;
  for (const Axis& axis : program_.axes) total *= axis.extent;
  Prologue(total);
  if (const absl::Status status = Groups(total); !status.ok()) return status;
  EmittedKernel kernel;
  kernel.language = Language::kPtx;
  kernel.entry = program_.name;
  kernel.threads = layout_.threads;
  kernel.grid = {{total, layout_.threads * layout_.elements}};
  kernel.text = fmt::format(
      ".version 7.8\n.target sm_80\n.address_size 64\n\n.visible .entry {}({})\n"
      ".maxntid {}, 1, 1\n{{\n{}\n{}done:\n  ret;\n}}\n",
      program_.name, Parameters(), layout_.threads, body_.Declarations(), body_.text());
  return kernel;
}

// The register of a value for position `element_` of the group.
std::string PtxPrinter::Value(int value) const {
  const auto number = static_cast<size_t>(value);
  const bool has_copies = elements_ > 1 && varies_[number];
  return PtxBody::Register(TypeOf(value),
                           number + (has_copies ? element_ * program_.instructions.size() : 0));
}

// A group of positions at once; what is left, one by one.
absl::Status PtxPrinter::Groups(const Size& total) {
  if (layout_.elements == 1) return Positions(1);
  std::string end;
  if (layout_.has_tail) {
    end = SizeValue(total);
    const std::string left = body_.New(DType::kU64);
    const std::string is_tail = body_.New(DType::kBool);
    body_.Line("sub.u64 {}, {}, {};", left, end, positions_[0]);
    body_.Line("setp.lt.u64 {}, {}, {};", is_tail, left, layout_.elements);
    body_.Line("@{} bra tail;", is_tail);
  }
  if (absl::Status status = Positions(layout_.elements); !status.ok()) return status;
  if (!layout_.has_tail) return absl::OkStatus();
  body_.Line("bra done;");
  body_.Label("tail");
  if (absl::Status status = Positions(1); !status.ok()) return status;
  const std::string is_left = body_.New(DType::kBool);
  body_.Line("add.u64 {0}, {0}, 1;", positions_[0]);
  body_.Line("setp.lt.u64 {}, {}, {};", is_left, positions_[0], end);
  body_.Line("@{} bra tail;", is_left);
  return absl::OkStatus();
}

absl::Status PtxPrinter::Positions(int elements) {
  elements_ = static_cast<size_t>(elements);
  FindCopies();
  for (size_t i = positions_.size(); i < elements_; ++i) {
    positions_.push_back(body_.New(DType::kU64));
    body_.Line("add.u64 {}, {}, {};", positions_[i], positions_[0], i);
  }
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const bool is_wide = elements_ > 1 && layout_.is_wide[i];
    const size_t copies = needs_[i] == Need::kAll && varies_[i] && !is_wide ? elements_ : 1;
    for (element_ = 0; element_ < copies && needs_[i] != Need::kNone; ++element_) {
      const absl::Status status = One(program_.instructions[i], static_cast<int>(i), is_wide);
      if (!status.ok()) return status;
    }
    element_ = 0;
  }
  return absl::OkStatus();
}

// Which values differ within a group, and which of them are needed.
void PtxPrinter::FindCopies() {
  const size_t count = program_.instructions.size();
  varies_.assign(count, false);
  needs_.assign(count, Need::kNone);
  for (size_t i = 0; i < count; ++i) {
    const Instruction& instruction = program_.instructions[i];
    const int axis = layout_.group_axis;
    bool varies = instruction.opcode == Opcode::kStore ||
                  (instruction.opcode == Opcode::kAxis && (axis < 0 || instruction.axis == axis));
    for (const int operand : instruction.operands) varies |= varies_[static_cast<size_t>(operand)];
    varies_[i] = varies;
  }
  for (size_t i = count; i-- > 0;) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.opcode == Opcode::kStore) needs_[i] = Need::kAll;
    for (size_t operand = 0; operand < instruction.operands.size(); ++operand) {
      const bool is_address = elements_ > 1 && layout_.is_wide[i] && operand == 0;
      Need& need = needs_[static_cast<size_t>(instruction.operands[operand])];
      need = std::max(need, std::min(needs_[i], is_address ? Need::kFirst : Need::kAll));
    }
  }
}

std::string PtxPrinter::Parameters() const {
  std::string text;
  const size_t count = program_.buffers.size() + program_.symbols.size();
  for (size_t i = 0; i < count; ++i) {
    fmt::format_to(std::back_inserter(text), "{}.param .u64 p{}", i == 0 ? "" : ", ", i);
  }
  return text;
}

// The position of the thread, of the first element of each buffer, and of symbols.
void PtxPrinter::Prologue(const Size& total) {
  const std::string block = body_.New(DType::kU32);
  const std::string thread = body_.New(DType::kU32);
  const std::string wide = body_.New(DType::kU64);
  const std::string is_beyond = body_.New(DType::kBool);
  const std::string position = body_.New(DType::kU64);
  positions_ = {position};
  body_.Line("mov.u32 {}, %ctaid.x;", block);
  body_.Line("mov.u32 {}, %tid.x;", thread);
  body_.Line("cvt.u64.u32 {}, {};", wide, thread);
  body_.Line("mad.wide.u32 {}, {}, {}, {};", position, block, layout_.threads, wide);
  if (layout_.elements > 1) body_.Line("mul.lo.u64 {0}, {0}, {1};", position, layout_.elements);
  for (size_t i = 0; i < program_.symbols.size(); ++i) {
    symbols_.push_back(body_.New(DType::kU64));
    body_.Line("ld.param.u64 {}, [p{}];", symbols_.back(), program_.buffers.size() + i);
  }
  body_.Line("setp.ge.u64 {}, {}, {};", is_beyond, position, SizeValue(total));
  body_.Line("@{} bra done;", is_beyond);
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    buffers_.push_back(body_.New(DType::kU64));
    body_.Line("ld.param.u64 {}, [p{}];", buffers_.back(), i);
    body_.Line("cvta.to.global.u64 {0}, {0};", buffers_.back());
  }
}

// A literal, or a register.
std::string PtxPrinter::SizeValue(const Size& size) {
  if (const auto constant = size.Constant()) return fmt::format("{}", *constant);
  const std::string sum = body_.New(DType::kI64);
  body_.Line("mov.u64 {}, 0;", sum);
  for (const Size::Term& term : size.terms()) {
    const std::string product = body_.New(DType::kI64);
    body_.Line("mov.b64 {}, {};", product, term.factor);
    for (const int symbol : term.symbols) {
      body_.Line("mul.lo.s64 {0}, {0}, {1};", product, symbols_[static_cast<size_t>(symbol)]);
    }
    body_.Line("add.s64 {0}, {0}, {1};", sum, product);
  }
  return sum;
}

void PtxPrinter::Position(const std::string& to, int value) {
  const int axis = At(value).axis;
  if (element_ > 0 && axis == layout_.group_axis) {
    const std::string first = PtxBody::Register(DType::kI64, static_cast<size_t>(value));
    return body_.Line("add.s64 {}, {}, {};", to, first, element_);
  }
  Size stride = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < program_.axes.size(); ++i) {
    stride *= program_.axes[i].extent;
  }
  const std::string& position = positions_[element_];
  if (stride == Size(1)) {
    body_.Line("mov.u64 {}, {};", to, position);
  } else {
    body_.Line("div.u64 {}, {}, {};", to, position, SizeValue(stride));
  }
  if (axis == 0) return;
  body_.Line("rem.u64 {0}, {0}, {1};", to,
             SizeValue(program_.axes[static_cast<size_t>(axis)].extent));
}

absl::Status PtxPrinter::One(const Instruction& instruction, int value, bool is_wide) {
  const std::string to = Value(value);
  const auto x = [&](size_t i) { return Value(instruction.operands[i]); };
  switch (instruction.opcode) {
    case Opcode::kConstant:
      body_.Constant(to, instruction);
      return absl::OkStatus();
    case Opcode::kSize:
      body_.Line("mov.b64 {}, {};", to, SizeValue(instruction.size));
      return absl::OkStatus();
    case Opcode::kAxis:
      Position(to, value);
      return absl::OkStatus();
    case Opcode::kLoad:
      is_wide ? WideLoad(value) : Load(to, instruction);
      return absl::OkStatus();
    case Opcode::kStore:
      if (!is_wide) return Store(instruction);
      WideStore(instruction);
      return absl::OkStatus();
    case Opcode::kCast:
      return body_.Cast(instruction.type, to, TypeOf(instruction.operands[0]), x(0));
    case Opcode::kBitCast:
      body_.BitCast(instruction.type, to, TypeOf(instruction.operands[0]), x(0));
      return absl::OkStatus();
    case Opcode::kSelect:
      body_.Select(instruction.type, to, x(0), x(1), x(2));
      return absl::OkStatus();
    case Opcode::kMultiplyAdd:
      body_.MultiplyAdd(instruction.type, to, x(0), x(1), x(2));
      return absl::OkStatus();
    case Opcode::kReduce:
      return MissingInPtx("a reduction");
    default:
      break;
  }
  const DType type = TypeOf(instruction.operands[0]);
  return instruction.operands.size() == 1 ? body_.Unary(instruction.opcode, type, to, x(0))
                                          : body_.Binary(instruction.opcode, type, to, x(0), x(1));
}

}  // namespace kiln::graph
