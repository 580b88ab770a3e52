// Prints docs/graph-operators.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/graph/operators/op_table.h"
#include "client/graph/plan/operator_section.h"
#include "client/graph/program/dtype.h"
#include "client/graph/sections/section_types.h"

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

constexpr char kSections[] = R"(
## Sections

A section has the type of its operation with a loop, if there is one. An engine can switch off each
type: `off`. Prologue: elementwise operations are computed where the section needs their elements.
Epilogue: they are done to its elements before these are stored. Barriers: it can be a stage of a
kernel with grid barriers. Tiles below are Triton's; `client/graph/sections` has blocks and threads.

| type | operators | prologue | epilogue | barriers | tiles |
|---|---|---|---|---|---|
)";

constexpr char kProducts[] = R"(
Tiles of products: the first that fits and leaves a program for each core. sm_100 is up to sm_119,
sm_120 what is later:

| targets | factors | rows x columns x bytes of depth | warps | stages |
|---|---|---|---|---|
)";

constexpr char kAttention[] = R"(
Tiles of attention, for heads of that size or less:

| targets | factors | head | queries x keys | stages |
|---|---|---|---|---|
)";

std::string YesNo(bool is) { return is ? "yes" : "no"; }

std::string OperatorsOf(SectionType type) {
  std::vector<std::string_view> names;
  for (int category = 0; category < kOpCategories; ++category) {
    const auto one = static_cast<OpCategory>(category);
    if (one != OpCategory::kUnsupported && SectionTypeOf(one) == type) names.push_back(NameOf(one));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string NamesOf(uint8_t generations) {
  if (generations == kEveryGeneration) return "all";
  std::vector<std::string_view> names;
  for (const auto& [generation, name] : {std::pair(kSm80, "before sm_90"),
                                         {kSm90, "sm_90"},
                                         {kSm100, "sm_100"},
                                         {kSm120, "sm_120"},
                                         {kAmd, "hip"}}) {
    if ((generations & generation) != 0) names.emplace_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view NameOf(Factors factors) {
  return factors == Factors::kAny        ? "any"
         : factors == Factors::kWithUnit ? "with a matrix unit"
                                         : "`f32`, not rounded";
}

std::string Sections() {
  std::string text = kSections;
  for (const SectionTypeFacts& type : AllSectionTypes()) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", type.name, OperatorsOf(type.type),
                        YesNo(type.takes_prologue), YesNo(type.takes_epilogue),
                        YesNo(type.tiling == Tiling::kBlocks),
                        type.tiling == Tiling::kBlocks    ? "blocks"
                        : type.tiling == Tiling::kProduct ? "of products"
                                                          : "of attention");
  }
  text += kProducts;
  for (const ProductTiles& row : AllProductTiles()) {
    text += fmt::format("| {} | {} | {} x {} x {} | {} | {} |\n", NamesOf(row.generations),
                        NameOf(row.factors), row.rows, row.columns, row.depth_bytes, row.warps,
                        row.stages);
  }
  text += kAttention;
  for (const AttentionTilesMax& row : AllAttentionTiles()) {
    text += fmt::format("| {} | {} | {} | {} x {} | {} |\n", NamesOf(row.generations),
                        NameOf(row.factors), row.head_max, row.queries, row.keys, row.stages);
  }
  return text;
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
  page += Sections();
  page += kTypes;
  for (int type = 0; type < kDTypes; ++type) page += TypeRow(static_cast<DType>(type));
  return page;
}

}  // namespace
}  // namespace kiln::graph

int main() { std::fputs(kiln::graph::Page().c_str(), stdout); }
