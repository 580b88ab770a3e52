// onnx_segments < CASES: what Kiln makes of ONNX models, for tests that run it by run_segments.
//
// A case is a line of JSON: {"name", "model": the file's bytes, "inputs": {name: {"type", "shape",
// "bytes"}}, "outputs": [name]}; bytes are hexadecimal. For each a line comes out: {"name"} with
// "unsupported", the reason; or with "segment", "symbols" (their sizes) and "outputs", a list of
// {"name", "type", "shape"}.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/escaping.h"
#include "client/graph/onnx/onnx_reader.h"
#include "client/graph/plan/plan.h"
#include "client/graph/segment/segment_json.h"

namespace kiln::graph {
namespace {

using Json = nlohmann::json;

// An error where the engine keeps an operation.
absl::StatusOr<Segment> ReadWhole(const Json& test, const OnnxOptions& options) {
  const std::string bytes = absl::HexStringToBytes(test["model"].get<std::string>());
  auto segment = ReadOnnxBytes(bytes, "", options);
  if (!segment.ok()) return segment;
  const auto plan = MakePlan(*segment, {.keeps_small_sections = true});
  if (!plan.ok()) return absl::InternalError(std::string(plan.status().message()));
  if (plan->refusals.empty()) return segment;
  const Refusal& refusal = plan->refusals.front();
  const std::string& op = segment->operations[static_cast<size_t>(refusal.operation)].name;
  const bool is_named = refusal.reason.starts_with(op + ": ");
  return absl::UnimplementedError(is_named ? refusal.reason : op + ": " + refusal.reason);
}

// Where inputs have to be known while kernels are planned, as axes and shapes have, they become
// constants: lists of integers first, then all lists.
absl::StatusOr<Segment> ReadCase(const Json& test) {
  OnnxOptions options;
  auto segment = ReadWhole(test, options);
  for (const bool takes_all : {false, true}) {
    for (const auto& [name, input] : test["inputs"].items()) {
      const bool is_integer = input["type"] == "int64" || input["type"] == "bool";
      if (input["shape"].size() > 1 || !(is_integer || takes_all)) continue;
      options.constants[name] = absl::HexStringToBytes(input["bytes"].get<std::string>());
    }
    if (segment.ok() || options.constants.empty()) continue;
    if (auto again = ReadWhole(test, options); again.ok()) return again;
  }
  return segment;
}

const Value* Named(const Segment& segment, const std::string& name) {
  const auto value = std::ranges::find(segment.values, name, &Value::name);
  return value == segment.values.end() ? nullptr : &*value;
}

// Sizes of the symbols, by the inputs' shapes.
std::vector<int64_t> SymbolsOf(const Segment& segment, const Json& inputs) {
  std::vector<int64_t> symbols(segment.symbols.size(), 0);
  for (const auto& [name, input] : inputs.items()) {
    const Value* const value = Named(segment, name);
    if (value == nullptr) continue;
    for (size_t i = 0; i < value->shape.size(); ++i) {
      if (value->shape[i].Constant()) continue;
      symbols[static_cast<size_t>(value->shape[i].terms()[0].symbols[0])] = input["shape"][i];
    }
  }
  return symbols;
}

Json Answer(const Json& test) {
  const auto segment = ReadCase(test);
  if (!segment.ok()) {
    return {{"name", test["name"]}, {"unsupported", std::string(segment.status().message())}};
  }
  const std::vector<int64_t> symbols = SymbolsOf(*segment, test["inputs"]);
  Json outputs = Json::array();
  for (const Json& name : test["outputs"]) {
    const Value& value = *Named(*segment, name);
    Json shape = Json::array();
    for (const Size& extent : value.shape) shape.push_back(extent.Evaluate(symbols).value_or(0));
    outputs.push_back({{"name", name}, {"type", FactsOf(value.type).name}, {"shape", shape}});
  }
  return {{"name", test["name"]},
          {"segment", Json::parse(WriteSegment(*segment))},
          {"symbols", symbols},
          {"outputs", outputs}};
}

}  // namespace
}  // namespace kiln::graph

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto answer = kiln::graph::Answer(nlohmann::json::parse(line));
    std::cout << answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  }
}
