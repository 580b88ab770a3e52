// What becomes of a segment: sections, which are kernels; views, which cost nothing; and what the
// engine keeps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/operators/views.h"
#include "client/graph/plan/cost_model.h"
#include "client/graph/program/loop_program.h"
#include "client/graph/sections/section_types.h"
#include "client/graph/segment/segment.h"

namespace kiln::graph {

// Whether small sections become one kernel with barriers of the whole grid between them.
enum class GridBarriers : uint8_t { kByScore, kAlways, kNever };
std::optional<GridBarriers> ParseGridBarriers(std::string_view name);  // "score", "always", "never"

struct PlanConfig {
  bool fuses = true;
  // Outputs that strides express on memory are views of it: for an engine that takes them so.
  bool gives_views = false;
  // Makes kernels for parts of the symbols' ranges, where that pays.
  bool splits_ranges = true;
  // Makes kernels of elementwise chains that are not worth a launch, too.
  bool keeps_small_sections = false;
  std::vector<SectionType> off = {};  // operations of these types are left to the engine
  GridBarriers barriers = GridBarriers::kByScore;
  // A compiler for the target multiplies tiles, so that a factor's element is computed once for
  // each tile that it is in. Decided by the CompileConfig: MultipliesTiles.
  bool multiplies_tiles = true;
  CostModel model = {};
};

// Operations that are computed together: the root, whose outputs are in memory, and those that are
// computed where their elements are needed.
struct Section {
  SectionType type = SectionType::kElementwise;  // that of the operation with a loop, if it has one
  int root = 0;                                  // an operation's number in the segment
  std::vector<int> operations;                   // ascending, the root among them
  std::vector<int> inputs;                       // values that it reads from memory, ascending
  std::vector<int> outputs;                      // values that it writes to memory
};

// An output of the segment that no kernel writes: it is elements of another value's memory.
struct OutputView {
  int operation = 0;  // that gives it
  int value = 0;
  int base = 0;  // in memory
  View view;     // of the base's elements
};

// An operation that is no part of a section, and why.
struct Refusal {
  int operation = 0;
  std::string reason;  // "Sort: nothing lowers it"
};

// One choice of the planner, for people.
struct FusionChoice {
  int producer = 0;
  int consumer = 0;
  bool is_fused = false;
  std::string reason;  // "saves 33.5 MB of traffic", "read 4096 times"
};

// Sections that follow each other, and whether one kernel computes them, with grid barriers.
struct SectionGroup {
  std::vector<int> sections;
  bool is_joined = false;
  std::string reason;  // "score 1.9 MB: 0.1 MB moved, 1 launch less"
};

// Sections and refused operations run in this order: what a step needs stands before it. An
// operation can be part of several sections. Values that no step gives are never in memory.
struct Plan {
  struct Step {
    bool is_section = true;
    int number = 0;  // in `sections` or `refusals`
  };
  std::vector<Section> sections;
  std::vector<Refusal> refusals;
  std::vector<OutputView> views;
  std::vector<FusionChoice> choices;
  std::vector<SectionGroup> groups;  // made by GroupSections
  std::vector<Step> order;

  // For each section the number of the joined group that has it; -1: none has.
  std::vector<int> JoinedGroups() const;
};

// INVALID_ARGUMENT: Check(segment) says why. An operation that nothing lowers is refused, not an
// error. Bounded: about linear in the operations.
[[nodiscard]] absl::StatusOr<Plan> MakePlan(const Segment& segment, const PlanConfig& config);
// The kernels of a section, to be launched one after the other. Buffers are named v<number of the
// value>.
[[nodiscard]] absl::StatusOr<std::vector<LoopProgram>> LowerSection(const Segment& segment,
                                                                    const Section& section);
// Makes the step of each of these sections one of the engine for each operation. Sections keep
// their numbers; no step names these any more. REQUIRES: none is in a joined group.
void GiveToEngine(Plan& plan, const std::map<int, std::string>& reasons);
// What was fused, what not, and why.
std::string Explain(const Segment& segment, const Plan& plan);

}  // namespace kiln::graph
