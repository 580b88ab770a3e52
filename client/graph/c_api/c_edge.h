// Shared by the implementation of kiln_graph.h: handles, errors, structs of any size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/c_api/kiln_graph.h"
#include "client/graph/compile/kernel_plan.h"
#include "client/graph/run/bound_plan.h"
#include "client/graph/run/memory_layout.h"
#include "client/graph/segment/segment.h"

struct kiln_graph_segment {
  kiln::graph::Segment segment;
  // What the last call gave.
  std::string json = {};
  std::deque<std::string> texts = {};
  std::vector<const char*> sizes = {};
};

struct kiln_graph_plan {
  kiln::graph::KernelPlan plan;
  // Made when they are asked for; UseNextCompiler ends them.
  std::optional<kiln::graph::MemoryLayout> layout = std::nullopt;
  std::string explanation = {};
  std::string key = {};
  struct View {
    std::string offset;
    std::vector<std::string> strides;
    std::vector<const char*> texts;
  };
  std::vector<View> views = {};
};

struct kiln_graph_bound {
  std::unique_ptr<kiln::graph::BoundPlan> bound;
  std::string failure = {};  // that get_load_failure gave last
};

namespace kiln::graph {

// Both keep the error for kiln_graph_error. REQUIRES: !status.ok(); an exception is being handled.
kiln_graph_code ReportFailure(const absl::Status& status);
kiln_graph_code ReportException() noexcept;

// Runs `body`, which returns a Status, once it is clear that no pointer of `required` is null.
template <typename Body>
kiln_graph_code Guarded(std::initializer_list<const void*> required, Body body) noexcept {
  try {
    for (const void* pointer : required) {
      if (pointer == nullptr) {
        return ReportFailure(absl::InvalidArgumentError("an argument is NULL that must not be"));
      }
    }
    const absl::Status status = body();
    if (status.ok()) return KILN_GRAPH_OK;
    return ReportFailure(status);
  } catch (...) {
    return ReportException();
  }
}

// Reads a struct of an older or a newer program.
template <typename Struct>
absl::Status Read(const Struct* given, Struct& known) {
  if (given->size < sizeof given->size) {
    return absl::InvalidArgumentError("a struct has no size: set it to sizeof the struct");
  }
  std::memcpy(&known, given, std::min<size_t>(given->size, sizeof known));
  return absl::OkStatus();
}

template <typename Struct>
absl::Status Write(Struct value, Struct* out) {
  if (out->size < sizeof out->size) {
    return absl::InvalidArgumentError("a struct has no size: set it to sizeof the struct");
  }
  value.size = out->size;
  std::memcpy(static_cast<void*>(out), &value, std::min<size_t>(out->size, sizeof value));
  return absl::OkStatus();
}

// INVALID_ARGUMENT: "there are 3 steps, there is no number 7".
absl::Status CheckNumber(int64_t number, size_t count, const char* what);
uint32_t RoleOf(const Value& value);

}  // namespace kiln::graph
