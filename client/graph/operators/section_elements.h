// Reads values for the operations of one section: those that the section computes by their
// producer, the others from memory.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "client/graph/operators/lowering.h"
#include "client/graph/operators/views.h"

namespace kiln::graph {

class SectionElements : public Elements {
 public:
  // `producers`: by value, the operation of this section that computes it.
  SectionElements(const Segment& segment, std::map<int, int> producers, std::string name);

  const Segment& segment() const override { return segment_; }
  ProgramBuilder& builder() override { return builder_; }
  absl::StatusOr<int> Read(int value, const Position& position) override;
  void BeginGuard(int condition) override;
  void EndGuard() override { guards_.pop_back(); }

  // Memory that the section reads. All of it comes before Program.
  void AddInput(int value);
  // Stores each element of `value`, an output of the section's root. `inner`: dimensions that are
  // inner axes.
  absl::StatusOr<LoopProgram> Program(const Operation& root, int value,
                                      const std::vector<int>& inner) &&;

 private:
  // Where elements lie that are in memory, or in views of memory alone.
  struct Place {
    int value = 0;  // the one that memory holds
    View view;
  };
  std::optional<Place> PlaceOf(int value);
  absl::StatusOr<int> ElementAt(const Operation& operation, int value, const Position& position);
  Position AddAxes(const std::vector<Size>& shape, const std::vector<int>& inner);
  int LoadOf(int value, const View& view, int buffer, const Position& position);
  int Load(DType type, int buffer, int index, std::optional<int> guard);
  Position PositionIn(const std::vector<Size>& shape, int flat);
  absl::Status Store(const Operation& root, int value, int buffer, const std::vector<int>& inner);
  absl::Status StorePairs(const Operation& root, int value, int buffer,
                          const std::vector<int>& inner);
  int IndexOf(const View& view, const Position& position);
  std::optional<int> Guard() const;
  const Value& ValueAt(int value) const { return segment_.values[static_cast<size_t>(value)]; }

  const Segment& segment_;
  const std::map<int, int> producers_;
  ProgramBuilder builder_;
  std::map<int, int> buffers_;                  // by value
  std::vector<int> guards_;                     // each with those before it
  std::map<int, std::optional<Place>> places_;  // by value
  // Elements that are computed already, by value, guard and position.
  std::map<std::tuple<int, int, Position>, int> computed_;
};

}  // namespace kiln::graph
