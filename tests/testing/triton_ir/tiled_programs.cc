// Products and attention as operators and the planner make them, in sizes that no tile divides.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "client/graph/plan/plan.h"
#include "tests/testing/graph/segment_maker.h"
#include "tests/testing/triton_ir/programs.h"

namespace kiln::graph {
namespace {

struct Fill {
  double from = -1;
  double to = 1;
  std::map<int, std::vector<double>> given = {};  // elements, by value
};

// Every kernel of the segment's plan. Inputs have numbers, which differ from one to the next.
class Cases {
 public:
  void Add(const std::string& name, const SegmentMaker& maker, std::vector<int64_t> symbols = {},
           const Fill& fill = {}) {
    const Segment& segment = maker.segment();
    const Plan plan = MakePlan(segment, {.keeps_small_sections = true}).value();
    for (const Section& section : plan.sections) {
      std::vector<LoopProgram> programs = LowerSection(segment, section).value();
      for (LoopProgram& program : programs) {
        program.name = fmt::format("{}_{}", name, programs_.size());
        programs_.push_back({std::move(program), symbols, {}});
        FillBuffers(segment, programs_.back(), fill);
      }
    }
  }
  std::vector<ProgramCase> Finish() && { return std::move(programs_); }

 private:
  static void FillBuffers(const Segment& segment, ProgramCase& one, const Fill& fill) {
    for (const Buffer& buffer : one.program.buffers) {
      const int value = std::atoi(buffer.name.c_str() + 1);  // "v3"
      int64_t count = 1;
      for (const Size& extent : segment.values[static_cast<size_t>(value)].shape) {
        count *= extent.Evaluate(one.symbols).value();
      }
      const auto given = fill.given.find(value);
      if (buffer.is_written) {
        one.buffers.emplace_back(buffer.type, count);
      } else if (given != fill.given.end()) {
        one.buffers.push_back(TestBuffer::Of(buffer.type, given->second));
      } else {
        one.buffers.push_back(
            TestBuffer::Of(buffer.type, Numbers(count, fill.from, fill.to, value + 1)));
      }
    }
  }

  std::vector<ProgramCase> programs_;
};

void AddTypes(Cases& cases) {
  for (DType type : {DType::kF16, DType::kBF16, DType::kF32, DType::kF8E4M3, DType::kF8E5M2}) {
    SegmentMaker maker;
    const int a = maker.Input({33, 37}, type);
    const int b = maker.Input({37, 31}, type);
    maker.Output(maker.Add("MatMul", {a, b}));
    cases.Add(fmt::format("matmul_of_{}", FactsOf(type).name), maker);
  }
  SegmentMaker maker;
  const int a = maker.Input({17, 100}, DType::kI8);
  const int b = maker.Input({100, 19}, DType::kI8);
  maker.Output(maker.Add("MatMulInteger", {a, b}));
  cases.Add("matmul_of_i8", maker, {}, {-128, 127});
}

void AddSizes(Cases& cases) {
  struct ProductSize {
    int64_t rows;
    int64_t depth;
    int64_t columns;
  };
  for (const auto& [rows, depth, columns] :
       {ProductSize{1, 64, 40}, ProductSize{40, 1, 40}, ProductSize{40, 64, 1},
        ProductSize{2, 3, 5}, ProductSize{16, 16, 16}, ProductSize{65, 129, 63},
        ProductSize{127, 31, 17}, ProductSize{64, 128, 64}}) {
    SegmentMaker maker;
    const int a = maker.Input({rows, depth}, DType::kF16);
    const int b = maker.Input({depth, columns}, DType::kF16);
    maker.Output(maker.Add("MatMul", {a, b}));
    cases.Add(fmt::format("matmul_{}_{}_{}", rows, depth, columns), maker);
  }
}

void AddSymbols(Cases& cases) {
  SegmentMaker maker;
  const Size batch = maker.Symbol("batch", 1, 64, 3);
  const Size length = maker.Symbol("length", 1, 4096, 50);
  const int x = maker.Input({batch, length, 24}, DType::kF16);
  const int w = maker.Input({21, 24}, DType::kF16);
  const int bias = maker.Input({21}, DType::kF16);
  maker.Output(maker.Add("Linear", {x, w, bias}));
  cases.Add("linear_of_symbols", maker, {2, 35});
}

void AddLayouts(Cases& cases) {
  for (int64_t turn : {0, 1, 2, 3}) {
    SegmentMaker maker;
    const int64_t of_a = turn % 2;
    const int64_t of_b = turn / 2;
    std::vector<Size> shape_a = {2, 3, 20, 33};
    std::vector<Size> shape_b = {3, 33, 18};
    if (of_a != 0) std::swap(shape_a[2], shape_a[3]);
    if (of_b != 0) std::swap(shape_b[1], shape_b[2]);
    const int a = maker.Input(shape_a, DType::kBF16);
    const int b = maker.Input(shape_b, DType::kBF16);
    maker.Output(
        maker.Add("FusedMatMul", {a, b}, {{"transA", of_a}, {"transB", of_b}, {"alpha", 0.5}}));
    cases.Add(fmt::format("batched_{}_{}", of_a, of_b), maker);
  }
}

// y = gelu(x * w + bias) + residual, in f16; and a sum as depends on one side alone.
void AddFused(Cases& cases) {
  SegmentMaker maker;
  const int x = maker.Input({45, 70}, DType::kF16);
  const int w = maker.Input({70, 50}, DType::kF16);
  const int bias = maker.Input({50}, DType::kF16);
  const int residual = maker.Input({45, 50}, DType::kF16);
  const int product = maker.Add("MatMul", {x, w});
  const int sum = maker.Add("Add", {product, bias});
  maker.Output(maker.Add("Add", {maker.Add("Gelu", {sum}), residual}));
  cases.Add("gelu_of_matmul", maker);

  // Behind the end of depth the activation is not 0.
  SegmentMaker before;
  const int y = before.Input({21, 35}, DType::kF16);
  const int shift = before.Input({35}, DType::kF16);
  const int v = before.Input({35, 20}, DType::kF16);
  const int shifted = before.Add("Exp", {before.Add("Add", {y, shift})});
  before.Output(before.Add("MatMul", {shifted, v}));
  cases.Add("matmul_of_exponentials", before);
}

// The factor's loads and the bias's are at one index, which depth is no part of.
void AddFactorOfOneColumn(Cases& cases) {
  SegmentMaker maker;
  const int x = maker.Input({33, 1}, DType::kF16);
  const int w = maker.Input({22, 18}, DType::kF16);
  const int bias = maker.Input({33, 1}, DType::kF16);
  const int wide = maker.Add("Expand", {x, maker.Integers({33, 20})});
  const int padded = maker.Add("Pad", {wide, maker.Integers({0, 1, 0, 1})});
  maker.Output(maker.Add("Add", {maker.Add("MatMul", {padded, w}), bias}));
  cases.Add("matmul_of_one_column", maker);
}

void AddConvolutions(Cases& cases) {
  for (const int64_t groups : {1, 3}) {
    SegmentMaker maker;
    const int x = maker.Input({2, 5 * groups, 9, 11}, DType::kF16);
    const int w = maker.Input({7 * groups, 5, 3, 3}, DType::kF16);
    const int bias = maker.Input({7 * groups}, DType::kF16);
    const int y = maker.Add("Conv", {x, w, bias},
                            {{"group", groups}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    maker.Output(maker.Add("Relu", {y}));
    cases.Add(fmt::format("convolution_of_{}_groups", groups), maker);
  }
  SegmentMaker maker;
  const int x = maker.Input({2, 6, 5, 7}, DType::kF16);
  const int w = maker.Input({6, 4, 3, 3}, DType::kF16);
  maker.Output(maker.Add("ConvTranspose", {x, w},
                         {{"group", int64_t{2}}, {"strides", std::vector<int64_t>{2, 1}}}));
  cases.Add("transposed_convolution_of_2_groups", maker);
}

struct Heads {
  std::string name;
  DType type;
  int64_t queries;
  int64_t keys;
  int64_t heads_of_keys = 1;
  Attributes attributes = {};
};

// Two heads of queries. Tiles are chosen for lengths of 16, so that there are several. No power of
// two is the width of a head.
void AddAttention(Cases& cases) {
  const Attributes causal = {{"is_causal", int64_t{1}}};
  for (const auto& [name, type, queries, keys, heads_of_keys, attributes] :
       {Heads{"plain", DType::kF16, 20, 70}, Heads{"causal", DType::kF16, 50, 50, 1, causal},
        Heads{"causal_of_few_keys", DType::kBF16, 50, 33, 2, causal},
        Heads{"causal_of_few_queries", DType::kF16, 19, 70, 1, causal},
        Heads{"capped", DType::kF32, 20, 40, 1, {{"softcap", 2.0}, {"scale", 0.7}}}}) {
    SegmentMaker maker;
    const Size of_queries = maker.Symbol("queries", 1, 4096, 16);
    const Size of_keys = maker.Symbol("keys", 1, 4096, 16);
    const int q = maker.Input({1, 2, of_queries, 10}, type);
    const int k = maker.Input({1, heads_of_keys, of_keys, 10}, type);
    const int v = maker.Input({1, heads_of_keys, of_keys, 12}, type);
    maker.Output(maker.Add("Attention", {q, k, v}, attributes));
    cases.Add("attention_" + name, maker, {queries, keys});
  }
}

// Reciprocals behind the last key and column are infinite: none may reach a product.
void AddAttentionOfComputedHeads(Cases& cases) {
  for (const bool is_causal : {false, true}) {
    SegmentMaker maker;
    const Size of_queries = maker.Symbol("queries", 1, 4096, 16);
    const Size of_keys = maker.Symbol("keys", 1, 4096, 16);
    const int q = maker.Input({1, 2, of_queries, 10}, DType::kF16);
    const int bias = maker.Input({2, 1, 10}, DType::kF16);
    const int k = maker.Input({1, 1, 10, of_keys}, DType::kF16);
    const int v = maker.Input({1, of_keys, 1, 12}, DType::kF16);
    const int keys = maker.Add("Transpose", {maker.Add("Reciprocal", {k})},
                               {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
    const int values = maker.Add("Transpose", {maker.Add("Reciprocal", {maker.Add("Neg", {v})})},
                                 {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    const int result = maker.Add("Attention", {maker.Add("Add", {q, bias}), keys, values},
                                 {{"is_causal", int64_t{is_causal}}});
    maker.Output(maker.Add("Abs", {result}));
    const std::string name = is_causal ? "causal_attention" : "attention";
    cases.Add(name + "_of_computed_heads", maker, {37, 70}, {.from = 1, .to = 2});
  }
}

// Its weights are f32, although its values are f16 in memory. The mask is in f16, too.
void AddAttentionOfCasts(Cases& cases) {
  SegmentMaker maker;
  std::vector<int> inputs;
  const int penalty = maker.Input({1}, DType::kF32);
  for (const int64_t length : {20, 40, 40}) {
    const int x = maker.Input({1, 2, length, 12}, DType::kF16);
    inputs.push_back(maker.Add("Cast", {x}, {{"to", std::string("f32")}}));
  }
  const int mask = maker.Input({1, 1, 1, 40}, DType::kF16);
  const int wide = maker.Add("Cast", {mask}, {{"to", std::string("f32")}});
  inputs.push_back(maker.Add("Mul", {wide, penalty}));
  maker.Output(maker.Add("Attention", inputs));
  cases.Add("attention_of_casts", maker);
}

// Every fourth query has no key at all: its result is no number. The others have the last keys
// alone, so that the first tile has none for any.
void AddAttentionWithoutKeys(Cases& cases, const std::string& name, DType type, double hidden,
                             double seen) {
  constexpr int64_t kQueries = 17;
  constexpr int64_t kKeys = 70;
  SegmentMaker maker;
  const int x = maker.Input({1, 1, kQueries, 8}, DType::kF16);
  const int y = maker.Input({1, 1, kKeys, 8}, DType::kF16);
  const int mask = maker.Input({kQueries, kKeys}, type);
  maker.Output(maker.Add("Attention", {x, y, y, mask}));
  std::vector<double> elements(kQueries * kKeys, hidden);
  for (int64_t query = 0; query < kQueries; ++query) {
    const auto end = elements.begin() + (query + 1) * kKeys;
    if (query % 4 != 0) std::fill(end - 2, end, seen);
  }
  cases.Add(name, maker, {}, {-1, 1, {{mask, elements}}});
}

void AddMaskedAttention(Cases& cases) {
  SegmentMaker maker;
  const Size length = maker.Symbol("length", 1, 4096, 16);
  const int q = maker.Input({1, 1, length, 8}, DType::kF16);
  const int k = maker.Input({1, 1, length, 8}, DType::kF16);
  const int v = maker.Input({1, 1, length, 8}, DType::kF16);
  const int mask = maker.Input({length, length}, DType::kF16);
  maker.Output(maker.Add("Relu", {maker.Add("Attention", {q, k, v, mask})}));
  cases.Add("masked_attention", maker, {45});

  AddAttentionWithoutKeys(cases, "attention_without_keys", DType::kBool, 0, 1);
  AddAttentionWithoutKeys(cases, "attention_of_scores_of_no_weight", DType::kF16, -INFINITY, 0);
}

}  // namespace

std::vector<ProgramCase> TiledPrograms() {
  Cases cases;
  AddTypes(cases);
  AddSizes(cases);
  AddSymbols(cases);
  AddLayouts(cases);
  AddFused(cases);
  AddFactorOfOneColumn(cases);
  AddConvolutions(cases);
  AddAttention(cases);
  AddMaskedAttention(cases);
  AddAttentionOfComputedHeads(cases);
  AddAttentionOfCasts(cases);
  return std::move(cases).Finish();
}

}  // namespace kiln::graph
