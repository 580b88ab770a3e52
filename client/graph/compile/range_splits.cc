#include "client/graph/compile/range_splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "client/graph/emit/linear_index.h"
#include "client/graph/emit/thread_layout.h"
#include "client/graph/emit/triton/product.h"

namespace kiln::graph {
namespace {

// The part of a symbol's range that holds multiples of `of`, or nothing.
std::optional<Symbol> Multiples(const Symbol& symbol, int64_t of) {
  const int64_t factor = of / std::gcd(symbol.multiple_of, of);
  if (symbol.multiple_of > symbol.max / factor) return std::nullopt;
  const int64_t step = symbol.multiple_of * factor;
  const int64_t over = symbol.min % step;
  const int64_t to_next = over == 0 ? 0 : step - over;
  if (to_next > symbol.max - symbol.min) return std::nullopt;
  Symbol narrow = symbol;
  narrow.multiple_of = step;
  narrow.min = symbol.min + to_next;
  narrow.max = symbol.max / step * step;
  narrow.typical = std::clamp(symbol.typical / step * step, narrow.min, narrow.max);
  return narrow;
}

class Splits {
 public:
  Splits(const LoopProgram& program, const CostModel& model)
      : program_(program), model_(model), indexes_(LinearIndexesOf(program)) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Opcode opcode = program.instructions[i].opcode;
      if (opcode == Opcode::kLoad || opcode == Opcode::kStore) accesses_.push_back(i);
      has_loop_ |= opcode == Opcode::kReduce;
    }
    if (const auto product = triton::FindProduct(program, {})) {
      tiled_ = product->rows;
      tiled_.insert(tiled_.end(), product->columns.begin(), product->columns.end());
    }
  }

  std::vector<RangeSplit> All() {
    std::vector<RangeSplit> found;  // the widest first
    if (auto split = WholeVectors()) found.push_back(*std::move(split));
    const RangeSplit widest = found.empty() ? RangeSplit{program_.symbols, ""} : found.front();
    for (size_t i = 0; i < program_.symbols.size(); ++i) {
      if (auto split = SmallTiles(i, widest)) found.push_back(*std::move(split));
    }
    if (found.size() > model_.splits_max) found.resize(model_.splits_max);
    std::ranges::reverse(found);
    return found;
  }

 private:
  const std::optional<LinearIndex>& IndexOf(size_t access) const {
    return indexes_[static_cast<size_t>(program_.instructions[access].operands[0])];
  }

  // The bytes of all buffers, with the symbols' typical sizes.
  double BytesMoved(const std::vector<Symbol>& symbols) const {
    std::map<int, double> of_buffer;
    for (const size_t access : accesses_) {
      const Instruction& instruction = program_.instructions[access];
      const auto& index = IndexOf(access);
      double bytes = FactsOf(instruction.type).bits / 8.0;
      for (size_t axis = 0; axis < program_.axes.size(); ++axis) {
        if (index && index->strides[axis] == Size(0)) continue;
        bytes *= static_cast<double>(TypicalOf(program_.axes[axis].extent, symbols));
      }
      double& most = of_buffer[instruction.buffer];
      most = std::max(most, bytes);
    }
    double sum = 0;
    for (const auto& [buffer, bytes] : of_buffer) sum += bytes;
    return sum;
  }

  std::optional<RangeSplit> IfItPays(std::vector<Symbol> symbols, std::string why) const {
    if (BytesMoved(symbols) < model_.launch_bytes) return std::nullopt;
    return RangeSplit{std::move(symbols), std::move(why)};
  }

  bool IsTiled(size_t symbol) const {
    return std::ranges::any_of(tiled_, [&](int axis) {
      const Size& extent = program_.axes[static_cast<size_t>(axis)].extent;
      return std::ranges::any_of(extent.terms(), [&](const Size::Term& term) {
        return std::ranges::count(term.symbols, static_cast<int>(symbol)) > 0;
      });
    });
  }

  // Small tiles keep the whole vectors of `widest`.
  std::optional<RangeSplit> SmallTiles(size_t number, const RangeSplit& widest) const {
    const Symbol& symbol = widest.symbols[number];
    const int64_t most = model_.split_small / symbol.multiple_of * symbol.multiple_of;
    if (most < std::max<int64_t>(symbol.min, 1) || !IsTiled(number) ||
        symbol.typical < model_.split_small * model_.split_small_ratio) {
      return std::nullopt;
    }
    std::vector<Symbol> symbols = widest.symbols;
    symbols[number].max = symbols[number].typical = most;
    return IfItPays(std::move(symbols),
                    fmt::format("{} up to {}: smaller tiles{}{}", symbol.name, most,
                                widest.why.empty() ? "" : "; ", widest.why));
  }

  // What has to be a multiple of split_multiple, so that neighbours are loaded as vectors.
  std::vector<Size> SizesOf(const LinearIndex& index) const {
    std::vector<Size> sizes = index.strides;
    std::erase(sizes, Size(1));
    sizes.push_back(index.offset);
    for (size_t axis = 0; axis < index.strides.size() && !has_loop_; ++axis) {
      if (index.strides[axis] == Size(1)) sizes.push_back(program_.axes[axis].extent);
    }
    return sizes;
  }
  bool AreMultiples(const std::vector<Size>& sizes, const std::vector<Symbol>& symbols) const {
    return std::ranges::all_of(sizes, [&](const Size& size) {
      return size.MultipleOf(symbols) % model_.split_multiple == 0;
    });
  }

  std::optional<RangeSplit> WholeVectors() const {
    std::vector<Symbol> all = program_.symbols;
    for (Symbol& symbol : all) symbol = Multiples(symbol, model_.split_multiple).value_or(symbol);
    std::set<int> needed;
    for (const size_t access : accesses_) {
      const auto& index = IndexOf(access);
      if (!index || std::ranges::count(index->strides, Size(1)) == 0) continue;
      if (!has_loop_ && IsDense(*index, program_)) continue;  // vectors cross its rows
      const std::vector<Size> sizes = SizesOf(*index);
      if (AreMultiples(sizes, program_.symbols) || !AreMultiples(sizes, all)) continue;
      for (const Size& size : sizes) {
        for (const Size::Term& term : size.terms()) {
          needed.insert(term.symbols.begin(), term.symbols.end());
        }
      }
    }
    std::vector<Symbol> symbols = program_.symbols;
    std::string names;
    for (const int number : needed) {
      Symbol& symbol = symbols[static_cast<size_t>(number)];
      const Symbol& narrow = all[static_cast<size_t>(number)];
      if (symbol.multiple_of == narrow.multiple_of) continue;
      symbol = narrow;
      names += (names.empty() ? "" : ", ") + symbol.name;
    }
    if (names.empty()) return std::nullopt;
    return IfItPays(std::move(symbols), fmt::format("{} a multiple of {}: rows are whole vectors",
                                                    names, model_.split_multiple));
  }

  const LoopProgram& program_;
  const CostModel& model_;
  const std::vector<std::optional<LinearIndex>> indexes_;
  std::vector<size_t> accesses_;
  bool has_loop_ = false;
  std::vector<int> tiled_;  // rows and columns of a product
};

}  // namespace

std::vector<RangeSplit> SplitsOf(const LoopProgram& program, const CostModel& model) {
  return Splits(program, model).All();
}

}  // namespace kiln::graph
