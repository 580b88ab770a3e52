#include <fmt/ranges.h>

#include "client/graph/emit/ptx_printer.h"

namespace kiln::graph {
namespace {

// "s8", "f32": the type of an element in memory.
std::string Stored(DType type) {
  const int bits = FactsOf(type).bits;
  const DTypeClass kind = FactsOf(type).kind;
  if (kind == DTypeClass::kSigned) return fmt::format("s{}", bits);
  if (kind == DTypeClass::kFloat && bits == 16) return "b16";
  if (kind == DTypeClass::kFloat && bits > 16) return fmt::format("f{}", bits);
  return fmt::format("u{}", bits);
}

// How a register gets 0.
std::pair<std::string_view, std::string_view> Empty(DType type) {
  if (type == DType::kF32) return {"f32", "0f00000000"};
  if (type == DType::kF64) return {"f64", "0d0000000000000000"};
  if (IsFloat(type) && FactsOf(type).bits == 16) return {"b16", "0"};
  return {FactsOf(type).bits == 64 ? "b64" : "b32", "0"};
}

}  // namespace

// The address of an element, in a register.
std::string PtxPrinter::Address(const Instruction& instruction) {
  std::string address = body_.New(DType::kU64);
  body_.Line("mad.lo.s64 {}, {}, {}, {};", address, Value(instruction.operands[0]),
             FactsOf(instruction.type).bits / 8, buffers_[static_cast<size_t>(instruction.buffer)]);
  return address;
}

void PtxPrinter::Load(const std::string& to, const Instruction& load) {
  const DType type = load.type;
  const std::string element = type == DType::kBool ? body_.New(DType::kU32) : to;
  const std::string address = Address(load);
  std::string guard;
  if (load.operands.size() > 1) {
    body_.Line("mov.{} {}, {};", Empty(type).first, element, Empty(type).second);
    guard = fmt::format("@{} ", Value(load.operands[1]));
  }
  body_.Line("{}ld.global{}.{} {}, [{}];", guard, Cache(load), Stored(type), element, address);
  if (type == DType::kBool) body_.Line("setp.ne.u32 {}, {}, 0;", to, element);
}

std::string_view PtxPrinter::Cache(const Instruction& load) const {
  return program_.buffers[static_cast<size_t>(load.buffer)].is_written ? "" : ".nc";
}

// The registers of a value for all positions of a group; of bools, their bytes.
std::vector<std::string> PtxPrinter::Elements(int value) {
  std::vector<std::string> elements;
  for (element_ = 0; element_ < elements_; ++element_) {
    elements.push_back(TypeOf(value) == DType::kBool ? body_.New(DType::kU32) : Value(value));
  }
  element_ = 0;
  return elements;
}

void PtxPrinter::WideLoad(int value) {
  const Instruction& load = At(value);
  const std::string address = Address(load);
  const std::vector<std::string> elements = Elements(value);
  body_.Line("ld.global{}.v{}.{} {{{}}}, [{}];", Cache(load), elements_, Stored(load.type),
             fmt::join(elements, ", "), address);
  if (load.type != DType::kBool) return;
  for (element_ = 0; element_ < elements_; ++element_) {
    body_.Line("setp.ne.u32 {}, {}, 0;", Value(value), elements[element_]);
  }
  element_ = 0;
}

absl::Status PtxPrinter::Store(const Instruction& store) {
  std::string value = Value(store.operands[1]);
  if (store.type == DType::kBool) {
    const std::string byte = body_.New(DType::kU32);
    body_.Line("selp.b32 {}, 1, 0, {};", byte, value);
    value = byte;
  }
  const std::string address = Address(store);
  const std::string guard =
      store.operands.size() > 2 ? fmt::format("@{} ", Value(store.operands[2])) : "";
  if (store.store == StoreKind::kPlain) {
    body_.Line("{}st.global.{} [{}], {};", guard, Stored(store.type), address, value);
    return absl::OkStatus();
  }
  return Atomic(store, guard, address, value);
}

void PtxPrinter::WideStore(const Instruction& store) {
  const int value = store.operands[1];
  const std::vector<std::string> elements = Elements(value);
  for (element_ = 0; store.type == DType::kBool && element_ < elements_; ++element_) {
    body_.Line("selp.b32 {}, 1, 0, {};", elements[element_], Value(value));
  }
  element_ = 0;
  const std::string address = Address(store);
  body_.Line("st.global.v{}.{} [{}], {{{}}};", elements_, Stored(store.type), address,
             fmt::join(elements, ", "));
}

absl::Status PtxPrinter::Atomic(const Instruction& store, const std::string& guard,
                                const std::string& address, const std::string& value) {
  const DType type = store.type;
  const bool adds = store.store == StoreKind::kAtomicAdd;
  const bool is_narrow = FactsOf(type).bits < 32;
  if ((is_narrow && !(adds && type == DType::kF16)) || (IsFloat(type) && !adds)) {
    return MissingInPtx(fmt::format("an atomic store of {}", FactsOf(type).name));
  }
  const std::string_view operation = adds                                       ? "add"
                                     : store.store == StoreKind::kAtomicMinimum ? "min"
                                                                                : "max";
  // Sums of s64 are those of u64.
  const std::string_view name = type == DType::kF16           ? "noftz.f16"
                                : adds && type == DType::kI64 ? "u64"
                                                              : PtxType(type);
  body_.Line("{}red.global.{}.{} [{}], {};", guard, operation, name, address, value);
  return absl::OkStatus();
}

}  // namespace kiln::graph
