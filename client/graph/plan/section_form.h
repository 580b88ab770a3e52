// Sections that are alike, as the layers of a model are, without lowering them.
#pragma once

#include <string>
#include <vector>

#include "client/graph/plan/plan.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

// What lowering reads of a section, but for the elements of constants. Two sections of a segment
// with the same text have the same programs, each value in the place of the other's: rules name
// values by number, and read nothing of them but type, shape, strides and elements.
struct SectionForm {
  std::string text;         // bytes
  std::vector<int> values;  // ascending; the text has their places
};

SectionForm FormOf(const Segment& segment, const Section& section);

}  // namespace kiln::graph
