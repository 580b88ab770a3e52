// Rows of the operator table, as people write them; op_table.cc reads them once.
#pragma once

#include <span>
#include <string_view>

#include "client/graph/operators/op_table.h"

namespace kiln::graph {

struct OpRow {
  std::string_view name;
  OpCategory category;
  std::string_view expression = "";
  std::string_view integer = "";  // the expression for integers, where it differs
  std::string_view types = "";    // of b(ool) i(nteger) f(loat); the category's where empty
  std::string_view inputs = "";   // "2", "1..3", "1.."; the category's where empty
  std::string_view outputs = "1";
  // "alpha=1.0 axis=-1 mode='linear' perm:ints to:dtype!": a default gives the kind, ":kind" is
  // without default, "!" required.
  std::string_view attributes = "";
  std::string_view aliases = "";
  DTypeRule dtype = DTypeRule::kOwn;  // kOwn: the category's
  std::string_view why_not = "";
};

std::span<const OpRow> ElementwiseRows();
std::span<const OpRow> StructuralRows();
std::span<const OpRow> UnsupportedRows();

}  // namespace kiln::graph
