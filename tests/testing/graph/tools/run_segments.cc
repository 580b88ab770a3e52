// run_segments interpreter|host|triton|opencl|cuda|ptx: plans and runs segments, for tests in
// Python that hold the results against NumPy. Reads a JSON object a line:
//
//   {"segment": {…}, "symbols": [64], "buffers": {"x": "<hex>"}, "fuses": true, "off": ["matmul"],
//    "barriers": "never", "scores": true}
//
// "buffers" has the elements of each value with a role. Without "scores" everything that can be
// fused is, whatever it costs. Writes {"buffers": {…}} a line, or
// {"error": "…"}. `host` compiles the CUDA C++ of all lines at once, with g++. The
// languages run nothing: they write {"kernels": […]}, in launch order, operations that the plan
// leaves to the engine among them, for the "architecture" that the object names.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "client/graph/compile/section_groups.h"
#include "client/graph/emit/cuda.h"
#include "client/graph/emit/opencl.h"
#include "client/graph/emit/ptx.h"
#include "client/graph/emit/triton/triton_emitter.h"
#include "client/graph/operators/lowering.h"
#include "client/graph/plan/plan.h"
#include "client/graph/segment/segment_json.h"
#include "client/graph/segment/shape.h"
#include "tests/testing/graph/host_kernels.h"
#include "tests/testing/graph/plan_runner.h"

namespace kiln::graph {
namespace {

using Json = nlohmann::json;

struct Case {
  Segment segment;
  Plan plan;
  std::vector<int64_t> symbols;
  EmitOptions options;
  std::map<int, TestBuffer> memory;
  std::vector<EmittedKernel> kernels;
  std::vector<std::vector<int>> values;  // of each kernel's buffers
};

absl::StatusOr<Case> ReadCase(const std::string& line) {
  const Json json = Json::parse(line);
  Case read;
  auto segment = ReadSegment(json.at("segment").dump());
  if (!segment.ok()) return segment.status();
  read.segment = *std::move(segment);
  PlanConfig config{.fuses = json.value("fuses", true), .keeps_small_sections = true};
  for (const std::string& name : json.value("off", std::vector<std::string>())) {
    config.off.push_back(ParseSectionType(name).value());
  }
  config.barriers = ParseGridBarriers(json.value("barriers", "never")).value();
  if (!json.value("scores", true)) {
    config.model.launch_bytes = config.model.recompute_max = config.model.factor_loads_max =
        std::numeric_limits<double>::infinity();
  }
  auto plan = MakePlan(read.segment, config);
  if (!plan.ok()) return plan.status();
  GroupSections(read.segment, config, {.target = "cuda:90"}, *plan);
  read.plan = *std::move(plan);
  read.symbols = json.at("symbols").get<std::vector<int64_t>>();
  read.options.architecture = json.value("architecture", "");
  for (size_t i = 0; i < read.segment.values.size(); ++i) {
    const Value& value = read.segment.values[i];
    const auto elements = json.at("buffers").find(value.name);
    if (elements == json.at("buffers").end()) continue;
    TestBuffer buffer(value.type, 0);
    const std::string bytes = absl::HexStringToBytes(elements->get<std::string>());
    buffer.bytes().assign(bytes.begin(), bytes.end());
    read.memory.emplace(static_cast<int>(i), std::move(buffer));
  }
  return read;
}

std::string Hex(const TestBuffer& buffer) {
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(buffer.bytes().data()), buffer.bytes().size()});
}

Json Buffers(const Case& done) {
  Json buffers = Json::object();
  for (const auto& [value, buffer] : done.memory) {
    const Value& facts = done.segment.values[static_cast<size_t>(value)];
    if (facts.is_output) buffers[facts.name] = Hex(buffer);
  }
  return {{"buffers", buffers}};
}

Json Error(const absl::Status& status) { return {{"error", std::string(status.message())}}; }

absl::StatusOr<EmittedKernel> Emit(const LoopProgram& program, std::string_view language,
                                   const EmitOptions& options) {
  if (language == "triton") return EmitTriton(program, options);
  if (language == "ptx") return EmitPtx(program, options);
  return language == "opencl" ? EmitOpenCl(program, options) : EmitCuda(program, options);
}

void AddKernel(Case& emitted, EmittedKernel kernel, std::vector<int> values) {
  emitted.kernels.push_back(std::move(kernel));
  for (const int value : values) {
    const Value& facts = emitted.segment.values[static_cast<size_t>(value)];
    emitted.memory.try_emplace(value, facts.type,
                               ElementsOf(facts.shape).Evaluate(emitted.symbols).value_or(0));
  }
  emitted.values.push_back(std::move(values));
}

// `number`: makes the kernels' names unique.
absl::Status EmitKernels(Case& emitted, std::string_view language, size_t number) {
  const std::vector<int> joined = emitted.plan.JoinedGroups();
  for (const Plan::Step& step : emitted.plan.order) {
    const auto at = static_cast<size_t>(step.number);
    const Segment& segment = emitted.segment;
    if (const int joined_in = step.is_section ? joined[at] : -1; joined_in >= 0) {
      const SectionGroup& group = emitted.plan.groups[static_cast<size_t>(joined_in)];
      if (group.sections.front() != step.number) continue;
      auto made = LowerGroup(segment, emitted.plan, group);
      if (!made.ok()) return made.status();
      auto kernel =
          EmitCudaStages(fmt::format("segment{}_kernel{}", number, emitted.kernels.size()),
                         made->programs, emitted.options);
      if (!kernel.ok()) return kernel.status();
      AddKernel(emitted, *std::move(kernel), std::move(made->values));
      continue;
    }
    auto programs =
        step.is_section
            ? LowerSection(segment, emitted.plan.sections[at])
            : Lower(segment,
                    segment.operations[static_cast<size_t>(emitted.plan.refusals[at].operation)]);
    if (!programs.ok()) return programs.status();
    for (LoopProgram& program : *programs) {
      program.name = fmt::format("segment{}_kernel{}", number, emitted.kernels.size());
      auto kernel = Emit(program, language, emitted.options);
      if (!kernel.ok()) return kernel.status();
      std::vector<int> values;
      for (const Buffer& buffer : program.buffers) {
        values.push_back(std::stoi(buffer.name.substr(1)));
      }
      AddKernel(emitted, *std::move(kernel), std::move(values));
    }
  }
  return absl::OkStatus();
}

void RunOnHost(Case& emitted, const HostKernels& host) {
  for (size_t i = 0; i < emitted.kernels.size(); ++i) {
    std::vector<TestBuffer> buffers;
    for (const int value : emitted.values[i]) buffers.push_back(emitted.memory.at(value));
    host.Run(emitted.kernels[i], emitted.symbols, buffers);
    for (size_t k = 0; k < buffers.size(); ++k)
      emitted.memory.at(emitted.values[i][k]) = buffers[k];
  }
}

Json Kernels(const Case& emitted) {
  Json kernels = Json::array();
  for (size_t i = 0; i < emitted.kernels.size(); ++i) {
    const EmittedKernel& kernel = emitted.kernels[i];
    Json grid = Json::array();
    for (const GridFactor& factor : kernel.grid) {
      const int64_t extent = factor.extent.Evaluate(emitted.symbols).value_or(0);
      grid.push_back((extent + factor.tile - 1) / factor.tile);
    }
    Json names = Json::array();
    for (const int value : emitted.values[i]) {
      names.push_back(emitted.segment.values[static_cast<size_t>(value)].name);
    }
    kernels.push_back({{"text", kernel.text},
                       {"entry", kernel.entry},
                       {"threads", kernel.threads},
                       {"grid", grid},
                       {"buffers", names}});
  }
  Json sizes = Json::object();
  for (const auto& [value, buffer] : emitted.memory) {
    sizes[emitted.segment.values[static_cast<size_t>(value)].name] = buffer.bytes().size();
  }
  return {{"kernels", kernels}, {"sizes", sizes}};
}

void Print(const Json& answer) {
  std::puts(answer.dump().c_str());
  std::fflush(stdout);
}

Json Answer(const std::string& line, std::string_view language) {
  auto read = ReadCase(line);
  if (!read.ok()) return Error(read.status());
  if (language == "interpreter") {
    const absl::Status status = RunPlan(read->segment, read->plan, read->symbols, read->memory);
    return status.ok() ? Buffers(*read) : Error(status);
  }
  const absl::Status status = EmitKernels(*read, language, 0);
  return status.ok() ? Kernels(*read) : Error(status);
}

int RunAllOnHost() {
  std::vector<absl::StatusOr<Case>> cases;
  std::vector<EmittedKernel> kernels;
  for (std::string line; std::getline(std::cin, line);) {
    auto read = ReadCase(line);
    if (read.ok()) {
      if (const absl::Status status = EmitKernels(*read, "cuda", cases.size()); !status.ok()) {
        read = status;
      }
    }
    if (read.ok()) kernels.insert(kernels.end(), read->kernels.begin(), read->kernels.end());
    cases.push_back(std::move(read));
  }
  HostKernels host;
  if (const absl::Status status = host.Build(kernels); !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 1;
  }
  for (auto& one : cases) {
    if (one.ok()) RunOnHost(*one, host);
    Print(one.ok() ? Buffers(*one) : Error(one.status()));
  }
  return 0;
}

int Main(std::string_view language) {
  if (language == "host") return RunAllOnHost();
  for (std::string line; std::getline(std::cin, line);) Print(Answer(line, language));
  return 0;
}

}  // namespace
}  // namespace kiln::graph

int main(int argc, char** argv) { return kiln::graph::Main(argc > 1 ? argv[1] : "interpreter"); }
