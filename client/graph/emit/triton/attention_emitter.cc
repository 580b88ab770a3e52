#include "client/graph/emit/triton/attention_emitter.h"

#include <cmath>
#include <numbers>

#include "client/graph/emit/triton/tile_emitter.h"
#include "client/graph/emit/triton/tile_sizes.h"

namespace kiln::graph::triton {
namespace {

class AttentionEmitter {
 public:
  AttentionEmitter(const LoopProgram& program, const Attention& attention,
                   const EmitOptions& options)
      : attention_(attention),
        // Weights are rounded to 16 bits anyway.
        is_approximate_(attention.values.type != DType::kF32 || options.fast_math),
        tiles_(program, options),
        ir_(tiles_.ir()) {
    const auto typical = [&](const Axes& axes) {
      return TypicalOf(tiles_.PositionsOf(axes), program.symbols);
    };
    sizes_ = TilesOfAttention(
        {typical(attention.queries), typical(attention.keys), typical(attention.width),
         typical(attention.columns), attention.scores.type, attention.values.type},
        options);
    queries_ = tiles_.AddDimension(attention.queries, sizes_.queries);
    width_ = tiles_.AddDimension(attention.width, sizes_.width);
    keys_ = tiles_.AddDimension(attention.keys, sizes_.keys);
    columns_ = tiles_.AddDimension(attention.columns, sizes_.columns);
  }

  absl::StatusOr<EmittedKernel> Run(const EmitOptions& options) {
    tiles_.AddArguments();
    MoveToProgram();
    if (IsScaledLate()) scale_ = tiles_.ValueOf(attention_.scale).value;
    const IrBuilder::Values sums = OverKeys();
    tiles_.Define(attention_.largest, {Scaled(sums[0]), {queries_}});
    tiles_.Define(attention_.total, {sums[1], {queries_}});
    tiles_.Define(attention_.weighted, {sums[2], {queries_, columns_}});
    const LoopProgram& program = tiles_.program();
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      if (program.instructions[i].opcode == Opcode::kStore) tiles_.Store(static_cast<int>(i));
    }
    absl::StatusOr<std::string> text = ir_.Finish();
    if (!text.ok()) return text.status();
    return EmittedKernel{Language::kTritonIr,
                         *std::move(text),
                         program.name,
                         ThreadsOf(sizes_.warps, options),
                         {{tiles_.PositionsOf(attention_.queries), sizes_.queries},
                          {tiles_.PositionsOf(attention_.batch), 1}}};
  }

 private:
  Value ProgramId(int axis) { return ir_.Cast("arith.extsi", ir_.ProgramId(axis), Scalar::kI64); }

  // Scores are products, not yet multiplied by their scale: that goes into the power of 2.
  bool IsScaledLate() const { return is_approximate_ && attention_.scaled.has_value(); }

  Value Scaled(Value largest) {
    if (!IsScaledLate()) return largest;
    return ir_.Binary("arith.mulf", largest, ir_.Splat(scale_, {sizes_.queries}));
  }

  Value RoundedDown(Value position) {
    const Value tile = tiles_.Number(sizes_.keys);
    return ir_.Binary("arith.muli", ir_.Binary("arith.divui", position, tile), tile);
  }

  void MoveToProgram() {
    Value block = ProgramId(0);
    if (attention_.is_before.has_value()) {
      // Later queries have more keys: they start first, so that all programs end together.
      const Value queries = tiles_.SizeOf(tiles_.PositionsOf(attention_.queries));
      const Value others = ir_.Binary("arith.subi", queries, tiles_.Number(1));
      const Value last = ir_.Binary("arith.divui", others, tiles_.Number(sizes_.queries));
      block = ir_.Binary("arith.subi", last, block);
    }
    first_query_ = ir_.Binary("arith.muli", block, tiles_.Number(sizes_.queries));
    tiles_.MoveTo(queries_, first_query_);
    tiles_.MoveTo(width_, tiles_.Number(0));
    tiles_.MoveTo(columns_, tiles_.Number(0));
    tiles_.MoveTo(attention_.batch, ProgramId(1));
  }

  // The largest score of each query, the sum of its weights, and that of weighted values.
  IrBuilder::Values OverKeys() {
    query_ = tiles_.FactorOf(attention_.scores.left, attention_.scores, {queries_, width_}, width_);
    tiles_.Prepare(attention_.score, keys_);
    tiles_.Prepare(attention_.values.right, keys_);
    const Type column{Scalar::kF32, {sizes_.queries}};
    const Value none = ir_.Float(column, -INFINITY);
    const Value zero = ir_.Float(column, 0);
    const Value zeros = ir_.Float({Scalar::kF32, {sizes_.queries, sizes_.columns}}, 0);
    const Size keys = tiles_.PositionsOf(attention_.keys);
    const bool is_even = keys.MultipleOf(tiles_.program().symbols) % sizes_.keys == 0;
    const Value count = tiles_.SizeOf(keys);
    const Value start = tiles_.Number(0);
    const Value even_end = is_even ? count : RoundedDown(count);
    if (!attention_.is_before.has_value()) {
      const IrBuilder::Values sums = Loop(start, even_end, true, {none, zero, zeros});
      return is_even ? sums : Loop(even_end, count, false, sums);
    }
    // Tiles of keys before the first query need no mask, those behind the last query none at all.
    const Value before = ir_.Binary("arith.minsi", RoundedDown(first_query_), even_end);
    const Value behind =
        ir_.Binary("arith.minsi",
                   ir_.Binary("arith.addi", first_query_, tiles_.Number(sizes_.queries)), count);
    const IrBuilder::Values sums = Loop(start, before, true, {none, zero, zeros});
    return Loop(before, behind, false, sums);
  }

  // `is_whole`: all scores of the tiles count.
  IrBuilder::Values Loop(Value from, Value to, bool is_whole, const IrBuilder::Values& sums) {
    const auto turn = [&](Value first, const IrBuilder::Values& carried) {
      tiles_.OpenScope();
      tiles_.MoveTo(keys_, first, is_whole);
      if (is_whole && attention_.is_before.has_value()) {
        tiles_.Define(*attention_.is_before, {ir_.Integer({Scalar::kI1}, 1), {}});
      }
      IrBuilder::Values next = Turn(carried);
      tiles_.CloseScope();
      return next;
    };
    return ir_.For(from, to, tiles_.Number(sizes_.keys), sums, turn, sizes_.stages);
  }

  IrBuilder::Values Turn(const IrBuilder::Values& sums) {
    const Value score = Scores();
    const Value largest = ir_.Binary("arith.maximumf", sums[0], Reduced("arith.maximumf", score));
    // Where every score so far is -infinity, all weights are 0.
    const Type type = ir_.TypeOf(largest);
    const Value is_none = ir_.Compare("oeq", largest, ir_.Float(type, -INFINITY));
    const Value from = ir_.Select(is_none, ir_.Float(type, 0), largest);
    const Value weights = Exponential(score, from, {queries_, keys_});
    const Value shrinks = Exponential(sums[0], from, {queries_});
    const Value total = ir_.MultiplyAdd(sums[1], shrinks, Reduced("arith.addf", weights));
    const Value kept = Expanded(shrinks, {queries_, columns_});
    const Factors& values = attention_.values;
    const Value value = tiles_.FactorOf(values.right, values, {keys_, columns_}, keys_);
    const Value rounded = tiles_.Cast(DType::kF32, values.type, weights);
    if (!sizes_.adds_apart) {
      const Value sum = ir_.Binary("arith.mulf", sums[2], kept);
      return {largest, total, tiles_.Dot(values, rounded, value, sum)};
    }
    const Value none = ir_.Float(ir_.TypeOf(sums[2]), 0);
    const Value part = tiles_.Dot(values, rounded, value, none);
    return {largest, total, ir_.MultiplyAdd(sums[2], kept, part)};
  }

  Value Scores() {
    const Factors& factors = attention_.scores;
    const Value key = tiles_.FactorOf(factors.right, factors, {width_, keys_}, width_);
    const Type type{Scalar::kF32, {sizes_.queries, sizes_.keys}};
    const Value products = tiles_.Dot(factors, query_, key, ir_.Float(type, 0));
    tiles_.Define(IsScaledLate() ? *attention_.scaled : attention_.products,
                  {products, {queries_, keys_}});
    const Value score = tiles_.Expanded(tiles_.ValueOf(attention_.score), {queries_, keys_});
    const std::optional<Value> mask = tiles_.MaskOf(keys_);
    if (!mask.has_value()) return score;
    const Value is_key = tiles_.Expanded({*mask, {keys_}}, {queries_, keys_});
    return ir_.Select(is_key, score, ir_.Float(type, -INFINITY));
  }

  Value Expanded(Value column, const std::vector<int>& dimensions) {
    return tiles_.Expanded({column, {queries_}}, dimensions);
  }

  Value Reduced(std::string_view operation, Value tile) {
    return ir_.Reduce({tile}, 1,
                      [&](const IrBuilder::Values& left, const IrBuilder::Values& right) {
                        return IrBuilder::Values{ir_.Binary(operation, left[0], right[0])};
                      })[0];
  }

  // exp(x - y), of scores or their largest: as a power of 2, which the hardware has. `y` has a
  // number for each query.
  Value Exponential(Value x, Value y, const std::vector<int>& dimensions) {
    if (!is_approximate_) {
      const Value difference = ir_.Binary("arith.subf", x, Expanded(y, dimensions));
      return tiles_.Apply(Opcode::kExponential, DType::kF32, difference);
    }
    const auto factor = [&](double sign, const Type& type) {
      Value number = ir_.Float({Scalar::kF32}, sign * std::numbers::log2e);
      if (IsScaledLate()) number = ir_.Binary("arith.mulf", number, scale_);
      return ir_.Splat(number, type.shape);
    };
    const Value minus = ir_.Binary("arith.mulf", y, factor(-1, ir_.TypeOf(y)));
    const Value times = factor(1, ir_.TypeOf(x));
    return ir_.Unary("math.exp2", ir_.MultiplyAdd(x, times, Expanded(minus, dimensions)));
  }

  const Attention& attention_;
  const bool is_approximate_;
  TileEmitter tiles_;
  IrBuilder& ir_;
  AttentionTiles sizes_;
  int queries_ = 0;
  int width_ = 0;
  int keys_ = 0;
  int columns_ = 0;
  Value scale_;
  Value first_query_;
  Value query_;
};

}  // namespace

absl::StatusOr<EmittedKernel> EmitAttention(const LoopProgram& program, const Attention& attention,
                                            const EmitOptions& options) {
  return AttentionEmitter(program, attention, options).Run(options);
}

}  // namespace kiln::graph::triton
