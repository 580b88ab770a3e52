// An ONNX file that somebody sent: what is read can be planned.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "client/graph/onnx/onnx_reader.h"
#include "client/graph/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto segment = kiln::graph::ReadOnnxBytes(input, "/nonexistent", {});
  if (segment.ok() && !kiln::graph::MakePlan(*segment, {.keeps_small_sections = true}).ok()) {
    std::abort();
  }
  return 0;
}
