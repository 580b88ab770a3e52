// The part of kiln_graph.h that executes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "client/graph/c_api/c_edge.h"
#include "storage/base/status.h"

using namespace kiln::graph;  // NOLINT: this file is their interface

namespace {

absl::Status CheckArray(const void* array, uint32_t count) {
  if (count == 0 || array != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError("an array is NULL, its count is not 0");
}

absl::Status CheckArrays(const kiln_graph_execution& given) {
  absl::Status status = CheckArray(given.buffers, given.buffer_count);
  return status.ok() ? CheckArray(given.symbols, given.symbol_count) : status;
}

Execution ExecutionOf(const kiln_graph_execution& given) {
  return {.first_step = given.first_step,
          .steps = given.step_count,
          .buffers = {given.buffers, given.buffer_count},
          .symbols = {given.symbols, given.symbol_count},
          .workspace = given.workspace,
          .workspace_bytes = given.workspace_bytes,
          .stream = given.stream,
          .kernels_mark = given.kernels_mark};
}

absl::Status ExecuteGiven(const kiln_graph_bound& bound, const kiln_graph_execution& given,
                          uint32_t& next_step) {
  absl::Status status = CheckArrays(given);
  if (!status.ok()) return status;
  size_t next = 0;
  status = bound.bound->Execute(ExecutionOf(given), next);
  if (status.ok()) next_step = static_cast<uint32_t>(next);
  return status;
}

kiln_graph_observed Described(const ObservedSymbol& observed, const Symbol& whole) {
  kiln_graph_observed known{};
  known.size_count = static_cast<uint32_t>(observed.size_count);
  known.executions = observed.executions;
  const Symbol range = RangeOf(observed, whole);
  known.range.size = sizeof known.range;
  known.range.name = whole.name.c_str();
  known.range.min = range.min;
  known.range.max = range.max;
  known.range.typical = range.typical;
  known.range.multiple_of = range.multiple_of;
  for (size_t i = 0; i < observed.size_count; ++i) {
    known.sizes[i] = observed.sizes[i].size;
    known.counts[i] = observed.sizes[i].executions;
  }
  return known;
}

}  // namespace

extern "C" {

kiln_graph_code kiln_graph_bind(kiln_graph_plan* plan, kiln_launch_runtime* runtime, int32_t device,
                                kiln_graph_bound** bound) {
  return Guarded({plan, runtime, bound}, [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(auto made, BoundPlan::Make(plan->plan, runtime, device));
    *bound = new kiln_graph_bound{.bound = std::move(made)};
    return absl::OkStatus();
  });
}

void kiln_graph_bound_close(kiln_graph_bound* bound) { delete bound; }

kiln_graph_code kiln_graph_bound_set_response(kiln_graph_bound* bound, uint32_t kernel,
                                              const void* response, uint64_t response_bytes) {
  return Guarded({bound, response}, [&] {
    return bound->bound->SetResponse(kernel, {static_cast<const char*>(response), response_bytes});
  });
}

kiln_graph_code kiln_graph_bound_set_artifact(kiln_graph_bound* bound, uint32_t kernel,
                                              kiln_launch_artifact* artifact) {
  return Guarded({bound, artifact}, [&] { return bound->bound->SetArtifact(kernel, artifact); });
}

kiln_graph_code kiln_graph_bound_prepare(kiln_graph_bound* bound) {
  return Guarded({bound}, [&] { return bound->bound->Prepare(); });
}

kiln_graph_code kiln_graph_bound_get_load_failure(kiln_graph_bound* bound, uint32_t number,
                                                  uint32_t* kernel, const char** why) {
  return Guarded({bound, kernel, why}, [&]() -> absl::Status {
    const auto failures = bound->bound->LoadFailures();
    if (number >= failures.size()) {
      return absl::NotFoundError(fmt::format("{} kernels could not be loaded", failures.size()));
    }
    bound->failure = std::string(failures[number].why.message());
    *kernel = static_cast<uint32_t>(failures[number].kernel);
    *why = bound->failure.c_str();
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_bound_get_explanation(const kiln_graph_bound* bound, const char** text) {
  return Guarded({bound, text}, [&] {
    *text = bound->bound->explanation().c_str();
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_bound_get_kernel(const kiln_graph_bound* bound, uint32_t number,
                                            kiln_launch_kernel** kernel) {
  return Guarded({bound, kernel}, [&]() -> absl::Status {
    const auto found = bound->bound->KernelAt(number);
    if (found.ok()) *kernel = *found;
    return found.status();
  });
}

kiln_graph_code kiln_graph_bound_get_workspace(const kiln_graph_bound* bound,
                                               const int64_t* symbols, uint32_t symbol_count,
                                               uint64_t* bytes) {
  return Guarded({bound, bytes}, [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckArray(symbols, symbol_count));
    const auto needed = bound->bound->WorkspaceBytes({symbols, symbol_count});
    if (needed.ok()) *bytes = *needed;
    return needed.status();
  });
}

kiln_graph_code kiln_graph_bound_get_buffer_bytes(const kiln_graph_bound* bound, uint32_t buffer,
                                                  const int64_t* symbols, uint32_t symbol_count,
                                                  uint64_t* bytes) {
  return Guarded({bound, bytes}, [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckArray(symbols, symbol_count));
    const auto needed = bound->bound->BufferBytes(buffer, {symbols, symbol_count});
    if (needed.ok()) *bytes = *needed;
    return needed.status();
  });
}

kiln_graph_code kiln_graph_bound_observe(kiln_graph_bound* bound) {
  return Guarded({bound}, [&] {
    bound->bound->Observe();
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_bound_get_observed(const kiln_graph_bound* bound, uint32_t symbol,
                                              kiln_graph_observed* observed) {
  return Guarded({bound, observed}, [&]() -> absl::Status {
    const auto all = bound->bound->Observed();
    if (!all.ok()) return all.status();
    absl::Status status = CheckNumber(symbol, all->size(), "symbols");
    if (!status.ok()) return status;
    return Write(Described((*all)[symbol], bound->bound->symbols()[symbol]), observed);
  });
}

kiln_graph_code kiln_graph_segment_set_ranges(kiln_graph_segment* segment,
                                              const kiln_graph_bound* bound) {
  return Guarded({segment, bound}, [&]() -> absl::Status {
    const auto all = bound->bound->Observed();
    if (!all.ok()) return all.status();
    std::vector<Symbol>& symbols = segment->segment.symbols;
    const std::vector<Symbol>& planned = bound->bound->symbols();
    if (!std::ranges::equal(symbols, planned, {}, &Symbol::name, &Symbol::name)) {
      return absl::InvalidArgumentError(
          "the segment has other symbols than the one that the plan was made of");
    }
    for (size_t i = 0; i < symbols.size(); ++i) symbols[i] = RangeOf((*all)[i], symbols[i]);
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_execute(const kiln_graph_bound* bound,
                                   const kiln_graph_execution* execution, uint32_t* next_step) {
  return Guarded({bound, execution, next_step}, [&]() -> absl::Status {
    if (execution->size == sizeof *execution) return ExecuteGiven(*bound, *execution, *next_step);
    kiln_graph_execution known{};
    KILN_RETURN_IF_ERROR(Read(execution, known));
    return ExecuteGiven(*bound, known, *next_step);
  });
}

kiln_graph_code kiln_graph_bound_get_kernels_mark(const kiln_graph_bound* bound, uint64_t* mark) {
  return Guarded({bound, mark}, [&] {
    *mark = bound->bound->KernelsMark();
    return absl::OkStatus();
  });
}

kiln_graph_code kiln_graph_check_replay(const kiln_graph_bound* bound,
                                        const kiln_graph_execution* captured,
                                        const kiln_graph_execution* wanted) {
  return Guarded({bound, captured, wanted}, [&]() -> absl::Status {
    kiln_graph_execution before{};
    kiln_graph_execution now{};
    KILN_RETURN_IF_ERROR(Read(captured, before));
    KILN_RETURN_IF_ERROR(Read(wanted, now));
    KILN_RETURN_IF_ERROR(CheckArrays(before));
    KILN_RETURN_IF_ERROR(CheckArrays(now));
    return bound->bound->CheckReplay(ExecutionOf(before), ExecutionOf(now));
  });
}

}  // extern "C"
