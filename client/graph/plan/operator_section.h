// What type of section an operator is by itself.
#pragma once

#include "client/graph/operators/op_table.h"
#include "client/graph/sections/section_types.h"

namespace kiln::graph {

SectionType SectionTypeOf(OpCategory category);

}  // namespace kiln::graph
