// Expected elements are those of ONNX's reference evaluator.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/testing/graph/numbered_tensor.h"
#include "tests/testing/graph/single_operation.h"
#include "tests/unit/client/graph/operators/near.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using Numbers = std::vector<double>;

OperationTensor Divided(OperationTensor tensor, double divisor) {
  for (double& element : tensor.elements) element /= divisor;
  return tensor;
}

// Two heads of queries share one of keys and values.
SingleOperation Grouped(Attributes attributes = {}) {
  SingleOperation attention("Attention", std::move(attributes));
  attention.Input(Divided(Numbered({1, 2, 2, 3}), 4));
  attention.Input(Divided(Numbered({1, 1, 3, 3}), 4)).Input(Numbered({1, 1, 3, 2}));
  return attention;
}

const Numbers kGrouped = {-3.76872, 1.63875, -0.91113, 1.27483,
                          -0.91724, 1.09272, -0.94241, 0.9227};

TEST(AttentionTest, HeadsOfQueriesShareKeysAndValues) {
  EXPECT_EQ(Grouped().Shape(), "[1, 2, 2, 2]");
  EXPECT_THAT(Grouped().Elements(), AreNear(kGrouped));
}

TEST(AttentionTest, CausalQueriesSeeNoLaterKeys) {
  EXPECT_THAT(Grouped({{"is_causal", 1}}).Elements(),
              AreNear({-5, 2, -2.39841, 4.60159, -5, 2, -2.64298, 4.35702}));
}

TEST(AttentionTest, ScaleAndSoftcapReplaceDefaults) {
  EXPECT_THAT(
      Grouped({{"scale", 2.0}, {"softcap", 1.5}}).Elements(),
      AreNear({-4.46005, 1.83942, -0.63413, 1.03987, -0.65684, 1.03485, -0.71472, 1.03154}));
}

TEST(AttentionTest, ANumberOfTheMaskIsAddedToTheCappedScore) {
  EXPECT_THAT(
      Grouped({{"softcap", 1.5}}).Input(Divided(Numbered({2, 3}), 2)).Elements(),
      AreNear({-1.96931, 3.69126, -3.55315, 2.90806, -1.66445, 4.03293, -3.88666, 2.65557}));
}

TEST(AttentionTest, AMaskOfBoolsLeavesKeysOut) {
  EXPECT_THAT(Grouped().Input({{2, 3}, {1, 0, 0, 0, 1, 0}, DType::kBool}).Elements(),
              AreNear({-5, 2, -2, 5, -5, 2, -2, 5}));
}

TEST(AttentionTest, KeysBehindAShorterMaskAreLeftOut) {
  EXPECT_THAT(Grouped().Input({{2, 2}, {0.5, 1, 1, 2}}).Elements(),
              AreNear({-4.35963, 2.64037, -2.16, 4.84, -2.33089, 4.66911, -2.27361, 4.72639}));
}

TEST(AttentionTest, HeadsLieSideBySideInThreeDimensions) {
  SingleOperation attention("Attention", {{"q_num_heads", 4}, {"kv_num_heads", 2}});
  attention.Input(Divided(Numbered({2, 2, 8}), 4));
  attention.Input(Divided(Numbered({2, 3, 4}), 4)).Input(Numbered({2, 3, 2}));
  attention.Input(Divided(Numbered({2, 1, 2, 3}), 2));
  EXPECT_EQ(attention.Shape(), "[2, 2, 4]");
  EXPECT_THAT(attention.Elements(),
              AreNear({-1.17043, -1.01755, 3.59289, 4.55109, -4.82952, -4.22824, 2.59117, 2.80958,
                       0.53268, 3.57485, 0.21775, -0.08571, 0.44553, 3.55372, 0.14364, -0.08216}));
}

TEST(AttentionTest, LargeScoresDoNotOverflow) {
  SingleOperation attention("Attention", {{"scale", 1.0}});
  attention.Input({{1, 1, 1, 1}, {1000}}).Input({{1, 1, 2, 1}, {1, 1}});
  EXPECT_THAT(attention.Input({{1, 1, 2, 1}, {3, 5}}).Elements(), AreNear({4}));
}

// --- By a loop over queries and keys ---

// One head of one batch. Keys are of the width of a query.
struct Reference {
  std::vector<Numbers> queries;
  std::vector<Numbers> keys;
  std::vector<Numbers> values;
};

template <typename Sees>
Numbers Attend(const Reference& at, const Sees& sees) {
  Numbers result;
  for (size_t i = 0; i < at.queries.size(); ++i) {
    Numbers sums(at.values[0].size(), 0);
    double all = 0;
    for (size_t j = 0; j < at.keys.size(); ++j) {
      if (!sees(static_cast<int>(i), static_cast<int>(j))) continue;
      double score = 0;
      for (size_t c = 0; c < at.keys[j].size(); ++c) score += at.queries[i][c] * at.keys[j][c];
      const double weight = std::exp(score / std::sqrt(at.keys[j].size()));
      all += weight;
      for (size_t c = 0; c < sums.size(); ++c) sums[c] += weight * at.values[j][c];
    }
    for (const double sum : sums) result.push_back(all == 0 ? 0 : sum / all);
  }
  return result;
}

const std::vector<Numbers> kQueries = {{1, -1}, {0.5, 2}};
const std::vector<Numbers> kKeys = {{0, 1}, {1, 1}, {-1, 0.5}, {2, 0}};
const std::vector<Numbers> kValues = {{1, 10}, {2, 20}, {3, 30}, {4, 40}};
const Reference kAll = {kQueries, kKeys, kValues};

Numbers Flat(const std::vector<Numbers>& rows, size_t begin, size_t end) {
  Numbers flat;
  for (size_t i = begin; i < end; ++i) flat.insert(flat.end(), rows[i].begin(), rows[i].end());
  return flat;
}

// [1, 1, length, 2].
OperationTensor Rows(const std::vector<Numbers>& rows, size_t begin, size_t end) {
  return {{1, 1, static_cast<int64_t>(end - begin), 2}, Flat(rows, begin, end)};
}

SingleOperation OneHead(Attributes attributes = {}) {
  SingleOperation attention("Attention", std::move(attributes));
  attention.Input(Rows(kQueries, 0, 2)).Input(Rows(kKeys, 0, 4)).Input(Rows(kValues, 0, 4));
  return attention;
}

TEST(AttentionTest, PastKeysStandBeforeNewOnesAndComeBackWithThem) {
  SingleOperation attention("Attention", {{"is_causal", 1}});
  attention.Input(Rows(kQueries, 0, 2)).Input(Rows(kKeys, 2, 4)).Input(Rows(kValues, 2, 4));
  attention.Omitted().Input(Rows(kKeys, 0, 2)).Input(Rows(kValues, 0, 2));
  const auto outputs = attention.Run(3);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].elements,
              AreNear(Attend(kAll, [](int i, int j) { return j <= i + 2; })));
  EXPECT_EQ((*outputs)[1].elements, Flat(kKeys, 0, 4));
  EXPECT_EQ((*outputs)[2].elements, Flat(kValues, 0, 4));
}

TEST(AttentionTest, KeysBehindTheValidOnesAreLeftOut) {
  SingleOperation attention = OneHead({{"is_causal", 1}});
  attention.Omitted().Omitted().Omitted().Input({{1}, {3}, DType::kI64});
  EXPECT_THAT(attention.Elements(), AreNear(Attend(kAll, [](int i, int j) { return j <= i + 1; })));
}

TEST(AttentionTest, AWindowLimitsWhatAQuerySees) {
  EXPECT_THAT(OneHead({{"left_window_size", 0}, {"right_window_size", 1}}).Elements(),
              AreNear(Attend(kAll, [](int i, int j) { return j == i || j == i + 1; })));
}

TEST(AttentionTest, AQueryThatSeesNoKeyGivesZeros) {
  SingleOperation attention = OneHead();
  attention.Input({{2, 4}, {0, 0, 0, 0, 0, 1, 0, 1}, DType::kBool});
  EXPECT_THAT(attention.Elements(),
              AreNear(Attend(kAll, [](int i, int j) { return i == 1 && j % 2 == 1; })));
}

TEST(AttentionTest, ScoresComeFromTheStageThatIsAskedFor) {
  const auto scores = [](int64_t stage) {
    SingleOperation attention =
        OneHead({{"softcap", 2.0}, {"qk_matmul_output_mode", stage}, {"scale", 1.0}});
    attention.Input({{1, 4}, {0, 1, 0, 0}});
    const auto outputs = attention.Run(4);
    return outputs.ok() ? (*outputs)[3].elements : Numbers();
  };
  const auto capped = [](double x) { return 2 * std::tanh(x / 2); };
  const Numbers raw = {-1, 0, -1.5, 2, 2, 2.5, 0.5, 1};
  Numbers with_cap;
  for (const double x : raw) with_cap.push_back(capped(x));
  EXPECT_THAT(scores(0), AreNear(raw));
  EXPECT_THAT(scores(1), AreNear(with_cap));
  Numbers with_mask = with_cap;
  with_mask[1] += 1;
  with_mask[5] += 1;
  EXPECT_THAT(scores(2), AreNear(with_mask));
  Numbers softmax;
  for (size_t row : {0U, 4U}) {
    double sum = 0;
    for (size_t j = 0; j < 4; ++j) sum += std::exp(with_mask[row + j]);
    for (size_t j = 0; j < 4; ++j) softmax.push_back(std::exp(with_mask[row + j]) / sum);
  }
  EXPECT_THAT(scores(3), AreNear(softmax));
}

TEST(AttentionTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(Grouped().Omitted().Input(Numbered({1, 1, 3, 3})).Shape(),
              HasSubstr("past keys and values come together"));
  EXPECT_THAT(Grouped().Input(Numbered({2, 1})).Shape(), HasSubstr("a mask of one column"));
  EXPECT_THAT(Grouped().Input(Numbered({3, 3})).Shape(),
              HasSubstr("a mask of [3, 3] does not fit scores of [1, 2, 2, 3]"));
}

// --- ONNX Runtime's ---

// [1, length, 2].
OperationTensor Projected(const std::vector<Numbers>& rows, size_t begin, size_t end) {
  return {{1, static_cast<int64_t>(end - begin), 2}, Flat(rows, begin, end)};
}

TEST(MultiHeadAttentionTest, ABiasIsAddedToQueriesKeysAndValues) {
  SingleOperation attention("MultiHeadAttention", {{"num_heads", 1}});
  attention.Input(Projected(kQueries, 0, 2)).Input(Projected(kKeys, 0, 4));
  attention.Input(Projected(kValues, 0, 4)).Input({{6}, {1, 0, 0, -1, 5, 0}});
  Reference with_bias = kAll;
  for (Numbers& query : with_bias.queries) query[0] += 1;
  for (Numbers& key : with_bias.keys) key[1] -= 1;
  for (Numbers& value : with_bias.values) value[0] += 5;
  EXPECT_THAT(attention.Elements(), AreNear(Attend(with_bias, [](int, int) { return true; })));
}

TEST(MultiHeadAttentionTest, PaddedKeysCountNextToNothing) {
  const auto attend = [](const OperationTensor& padding) {
    SingleOperation attention("MultiHeadAttention", {{"num_heads", 1}, {"unidirectional", 1}});
    attention.Input(Projected(kQueries, 0, 2)).Input(Projected(kKeys, 2, 4));
    attention.Input(Projected(kValues, 2, 4)).Omitted().Input(padding).Omitted();
    return attention.Input(Rows(kKeys, 0, 2)).Input(Rows(kValues, 0, 2)).Elements();
  };
  EXPECT_THAT(attend({{1}, {3}, DType::kI32}),
              AreNear(Attend(kAll, [](int i, int j) { return j < 3 && j <= i + 2; })));
  EXPECT_THAT(attend({{1, 4}, {1, 0, 1, 1}, DType::kI32}),
              AreNear(Attend(kAll, [](int i, int j) { return j != 1 && j <= i + 2; })));
}

TEST(MultiHeadAttentionTest, HeadsLieSideBySide) {
  SingleOperation attention("MultiHeadAttention", {{"num_heads", 2}});
  attention.Input({{1, 1, 4}, {1, -1, 0.5, 2}});  // both queries, each for a head of its own
  attention.Input({{1, 2, 4}, {0, 1, 0, 1, 1, 1, 1, 1}});
  attention.Input({{1, 2, 4}, {1, 10, 1, 10, 2, 20, 2, 20}});
  EXPECT_THAT(attention.Elements(), AreNear(Attend(kAll, [](int, int j) { return j < 2; })));
}

TEST(GroupQueryAttentionTest, NewKeysFollowThoseThatTheBufferHolds) {
  SingleOperation attention("GroupQueryAttention", {{"num_heads", 1}, {"kv_num_heads", 1}});
  attention.Input(Projected(kQueries, 0, 2)).Input(Projected(kKeys, 1, 3));
  attention.Input(Projected(kValues, 1, 3));
  // Two keys in a buffer with room for five, of which one is there already.
  const OperationTensor keys = {{1, 1, 5, 2}, {0, 1, 9, 9, 9, 9, 9, 9, 9, 9}};
  const OperationTensor values = {{1, 1, 5, 2}, {1, 10, 9, 9, 9, 9, 9, 9, 9, 9}};
  attention.Input(keys).Input(values).Input({{1}, {2}, DType::kI32}).Input(KnownInts({3}));
  const auto outputs = attention.Run(3);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_THAT((*outputs)[0].elements,
              AreNear(Attend(kAll, [](int i, int j) { return j <= i + 1; })));
  EXPECT_THAT((*outputs)[1].elements, AreNear({0, 1, 1, 1, -1, 0.5, 9, 9, 9, 9}));
}

TEST(GroupQueryAttentionTest, ALocalWindowEndsAtTheQuery) {
  SingleOperation attention("GroupQueryAttention",
                            {{"num_heads", 1}, {"kv_num_heads", 1}, {"local_window_size", 1}});
  const std::vector<Numbers> queries = {{1, -1}, {0.5, 2}, {0, 1}, {1, 1}};
  attention.Input(Projected(queries, 0, 4)).Input(Projected(kKeys, 0, 4));
  attention.Input(Projected(kValues, 0, 4));
  EXPECT_THAT(attention.Elements(), AreNear(Attend({queries, kKeys, kValues}, [](int i, int j) {
                return j == i || j == i - 1;
              })));
}

TEST(GroupQueryAttentionTest, RotatesQueriesAndNewKeysByTheirPlaces) {
  SingleOperation attention("GroupQueryAttention",
                            {{"num_heads", 1}, {"kv_num_heads", 1}, {"do_rotary", 1}});
  attention.Input(Projected(kQueries, 0, 2)).Input(Projected(kKeys, 0, 2));
  attention.Input(Projected(kValues, 0, 2)).Omitted().Omitted();
  attention.Input({{1}, {1}, DType::kI32}).Input(KnownInts({2}));
  const double angles[] = {0.25, 1.5};
  OperationTensor cosines{{2, 1}, {}};
  OperationTensor sines{{2, 1}, {}};
  Reference rotated{kQueries, {kKeys[0], kKeys[1]}, {kValues[0], kValues[1]}};
  for (size_t i = 0; i < 2; ++i) {
    const double cosine = std::cos(angles[i]);
    const double sine = std::sin(angles[i]);
    cosines.elements.push_back(cosine);
    sines.elements.push_back(sine);
    for (Numbers* row : {&rotated.queries[i], &rotated.keys[i]}) {
      const Numbers x = *row;
      *row = {x[0] * cosine - x[1] * sine, x[0] * sine + x[1] * cosine};
    }
  }
  attention.Input(cosines).Input(sines);
  EXPECT_THAT(attention.Elements(), AreNear(Attend(rotated, [](int i, int j) { return j <= i; })));
}

}  // namespace
}  // namespace kiln::graph
