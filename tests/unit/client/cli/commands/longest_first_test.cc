#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/cli/commands/request_source.h"

namespace kiln::cli {
namespace {

NamedRequestSource RequestsOf(std::vector<uint64_t> micros, size_t source_bytes = 1) {
  return [micros = std::move(micros), source_bytes,
          at = size_t{0}]() mutable -> std::optional<NamedRequest> {
    if (at == micros.size()) return std::nullopt;
    NamedRequest named{std::to_string(at), at, v1::CompileRequest()};
    named.request->mutable_source()->set_text(std::string(source_bytes, 'x'));
    named.recorded.compile_micros = micros[at++];
    return named;
  };
}

std::vector<std::string> NamesOf(const NamedRequestSource& source) {
  std::vector<std::string> names;
  while (auto named = source()) names.push_back(named->name);
  return names;
}

TEST(LongestFirstTest, EqualOnesKeepTheirOrder) {
  EXPECT_EQ(NamesOf(LongestFirst(RequestsOf({3, 9, 0, 9, 5, 0}))),
            (std::vector<std::string>{"1", "3", "4", "0", "2", "5"}));
}

TEST(LongestFirstTest, TheLargestComesFirstWhereNoTimeIsRecorded) {
  const NamedRequestSource source =
      LongestFirst(Chained({RequestsOf({0}, 10), RequestsOf({0}, 30), RequestsOf({0}, 20)}));
  std::vector<size_t> sizes;
  while (auto named = source()) sizes.push_back(named->request->source().text().size());
  EXPECT_EQ(sizes, (std::vector<size_t>{30, 20, 10}));
}

TEST(LongestFirstTest, LooksSoFarAhead) {
  std::vector<uint64_t> micros(100, 1);
  micros[63] = 2;
  micros[99] = 3;
  const auto names = NamesOf(LongestFirst(RequestsOf(micros)));
  ASSERT_EQ(names.size(), 100U);
  EXPECT_EQ(names[0], "63");
  EXPECT_EQ(names[36], "99");
}

TEST(LongestFirstTest, HoldsFewLargeSources) {
  const auto names = NamesOf(LongestFirst(RequestsOf({1, 2, 3, 4, 5}, size_t{3} << 20)));
  EXPECT_EQ(names, (std::vector<std::string>{"1", "2", "3", "4", "0"}));
}

}  // namespace
}  // namespace kiln::cli
