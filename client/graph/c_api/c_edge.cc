#include "client/graph/c_api/c_edge.h"

#include <fmt/format.h>

#include <exception>
#include <new>

namespace kiln::graph {
namespace {

thread_local std::string last_error;

}  // namespace

kiln_graph_code ReportFailure(const absl::Status& status) {
  last_error = std::string(status.message());
  return static_cast<kiln_graph_code>(status.code());
}

kiln_graph_code ReportException() noexcept {
  last_error.clear();
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return KILN_GRAPH_RESOURCE_EXHAUSTED;  // a text would need memory again
  } catch (const std::exception& exception) {
    last_error = exception.what();
  } catch (...) {
  }
  return KILN_GRAPH_INTERNAL;
}

absl::Status CheckNumber(int64_t number, size_t count, const char* what) {
  if (number >= 0 && static_cast<size_t>(number) < count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("there are {} {}, there is no number {}", count, what, number));
}

uint32_t RoleOf(const Value& value) {
  return (value.is_input ? uint32_t{KILN_GRAPH_INPUT} : 0) |
         (value.is_output ? uint32_t{KILN_GRAPH_OUTPUT} : 0) |
         (value.is_constant ? uint32_t{KILN_GRAPH_CONSTANT} : 0);
}

}  // namespace kiln::graph

extern "C" {

const char* kiln_graph_error(void) { return kiln::graph::last_error.c_str(); }

}  // extern "C"
