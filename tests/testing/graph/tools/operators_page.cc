// Prints docs/graph-operators.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "client/graph/operators/op_table.h"
#include "client/graph/program/dtype.h"

namespace kiln::graph {
namespace {

constexpr char kHead[] =
    R"(# Operators of the graph front end

What `client/graph/operators/op_rows_*.cc` say, printed by `operators_page`. Names are ONNX's where
ONNX has the operator. [graph.md](graph.md#how-to-add-an-operator) says how to add one.

Types: b is bool, i integers, f floats, of the first input. Attributes with a star are required.
)";

constexpr char kTypes[] = R"(
## Types

Memory, elementwise operations, and sums and products have these types on every target. The last
columns say where products are tiles of such factors, by matrix units where the target has them.

| type | in memory | computes as | accumulates as | tiles: cuda | tiles: hip | tiles elsewhere |
|---|---|---|---|---|---|---|
)";

std::string TypeRow(DType type) {
  const DTypeFacts& facts = FactsOf(type);
  const TileTargets& tiles = facts.tiles;
  return fmt::format("| `{}` | {} bits | `{}` | `{}` | {} | {} | {} |\n", facts.name, facts.bits,
                     FactsOf(facts.compute).name, FactsOf(facts.accumulate).name,
                     tiles.cuda_from > 1    ? fmt::format("from sm_{} on", tiles.cuda_from)
                     : tiles.cuda_from == 1 ? "all"
                                            : "",
                     tiles.hip == "gfx" ? "all" : tiles.hip,
                     facts.widened ? fmt::format("as `{}`", FactsOf(*facts.widened).name) : "");
}

std::string Range(int min, int max) {
  if (min == max) return fmt::format("{}", min);
  return max >= kAnyNumber ? fmt::format("{} or more", min) : fmt::format("{} to {}", min, max);
}

std::string Quoted(const std::vector<std::string_view>& names) {
  return names.empty() ? "" : fmt::format("`{}`", fmt::join(names, "`, `"));
}

std::string Attributes(const Operator& op) {
  std::vector<std::string> names;
  for (const AttributeFacts& attribute : op.attributes) {
    names.push_back(attribute.name + (attribute.is_required ? "*" : ""));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string Row(const Operator& op) {
  if (op.category == OpCategory::kUnsupported) {
    return fmt::format("| `{}` | {} | {} |\n", op.name, Quoted(op.aliases), op.why_not);
  }
  const std::string types = std::string(op.takes_bool ? "b" : "") + (op.takes_integer ? "i" : "") +
                            (op.takes_float ? "f" : "");
  return fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", op.name, Quoted(op.aliases),
                     Range(op.inputs_min, op.inputs_max), Range(op.outputs_min, op.outputs_max),
                     types, Attributes(op));
}

std::string Page() {
  std::map<OpCategory, std::string> rows;
  for (const Operator& op : AllOperators()) rows[op.category] += Row(op);
  std::string page = kHead;
  for (const auto& [category, lines] : rows) {
    std::string title(NameOf(category));
    title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
    page += fmt::format("\n## {}\n\n", title);
    page += category == OpCategory::kUnsupported
                ? "| operator | also called | why |\n|---|---|---|\n"
                : "| operator | also called | inputs | outputs | types | attributes |\n"
                  "|---|---|---|---|---|---|\n";
    page += lines;
  }
  page += kTypes;
  for (int type = 0; type < kDTypes; ++type) page += TypeRow(static_cast<DType>(type));
  return page;
}

}  // namespace
}  // namespace kiln::graph

int main() { std::fputs(kiln::graph::Page().c_str(), stdout); }
