#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/commands/batch.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/graph/next_kernels.h"
#include "client/cli/graph/steps_json.h"
#include "client/cli/graph/target_plan.h"
#include "client/cli/output/format.h"
#include "client/cli/output/output_directory.h"
#include "client/cli/requests/manifest_writer.h"
#include "client/rpc/client.h"

namespace kiln::cli {
namespace {

struct GraphArguments {
  std::string action;
  std::string file;
  std::string output;
  GraphFlags flags;
};

absl::Status CheckUsage(const GraphArguments& arguments) {
  const bool is_explain = arguments.action == "explain";
  if (!is_explain && arguments.action != "compile" && arguments.action != "manifest") {
    return InvalidArgument("'{}' is none of explain, compile, manifest", arguments.action);
  }
  if (arguments.flags.targets.empty() && (!is_explain || !arguments.flags.compiler.empty())) {
    return InvalidArgument("say what to compile for, as --target cuda:90");
  }
  if (is_explain && !arguments.output.empty()) {
    return InvalidArgument("explain writes no files: leave -o out");
  }
  if (arguments.action == "manifest" && arguments.output.empty()) {
    return InvalidArgument("name the new manifest, as -o job.kiln");
  }
  return absl::OkStatus();
}

// A kernel of one of the plans.
struct Place {
  size_t plan = 0;
  size_t kernel = 0;
};

std::vector<Place> AllPlaces(const std::vector<TargetPlan>& plans) {
  std::vector<Place> places;
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    for (size_t i = 0; i < plans[plan].kernels.size(); ++i) places.push_back({plan, i});
  }
  return places;
}

NamedRequest RequestAt(const std::vector<TargetPlan>& plans, const Place& place) {
  const TargetPlan& plan = plans[place.plan];
  return {KernelName(plan, place.kernel, plans.size() > 1), 0,
          RequestOf(plan.kernels[place.kernel], plan.config.target)};
}

std::string JsonOf(const graph::Segment& segment, const std::vector<TargetPlan>& plans,
                   std::string (*dump)(const Json&)) {
  Json json{{"segment", segment.name}};
  json["targets"] = Json::array();
  for (const TargetPlan& plan : plans) {
    json["targets"].push_back(StepsJson(segment, plan, plans.size() > 1));
  }
  return dump(json);
}

// --- explain -----------------------------------------------------------------------------------

absl::StatusOr<ExitCode> ExplainGraph(const GraphArguments& arguments,
                                      const graph::Segment& segment, Session& session) {
  Console& console = session.console();
  KILN_ASSIGN_OR_RETURN(const auto plans,
                        CannotRun(PlansFor(segment, arguments.flags, /*toolchains=*/nullptr)));
  if (session.json()) {
    console.out << JsonOf(segment, plans, Dump) << '\n';
    return kOk;
  }
  if (plans.empty()) {
    KILN_ASSIGN_OR_RETURN(const graph::PlanConfig config, CannotRun(PlanConfigOf(arguments.flags)));
    KILN_ASSIGN_OR_RETURN(const graph::Plan plan, graph::MakePlan(segment, config));
    console.out << graph::Explain(segment, plan);
  }
  for (const TargetPlan& plan : plans) {
    console.out << fmt::format("for {}, key {}\n", plan.config.target, plan.key)
                << graph::Explain(segment, plan.plan) << graph::Explain(plan.kernels);
  }
  return kOk;
}

// --- compile -----------------------------------------------------------------------------------

// Asks for all kernels at once; then for those that failed, each by its next compiler.
class GraphCompile {
 public:
  GraphCompile(const graph::Segment& segment, std::vector<TargetPlan> plans, Client& client,
               Session& session, OutputDirectory* output)
      : segment_(segment),
        plans_(std::move(plans)),
        client_(client),
        session_(session),
        output_(output) {}

  ExitCode Run() {
    for (const TargetPlan& plan : plans_) TellAbsent(plan);
    std::vector<Place> places = AllPlaces(plans_);
    ExitCode code = kOk;
    while (!places.empty()) {
      failures_.clear();
      if (RunBatchOf(places) == kCouldNotRun) return kCouldNotRun;
      places = NextOf(places, code);
    }
    return code;
  }

  const std::vector<TargetPlan>& plans() const { return plans_; }

 private:
  void TellAbsent(const TargetPlan& plan) {
    if (plan.absent.empty() || plan.config.forced) return;
    session_.console().err << fmt::format(
        "kiln: {}: no toolchain of the daemon compiles {}: kernels are written for {}\n",
        plan.config.target, graph::NamesOf(plan.absent), graph::NamesOf(plan.config.available));
  }

  ExitCode RunBatchOf(const std::vector<Place>& places) {
    BatchOptions options;
    options.total = places.size();
    options.output = output_;
    options.on_failure = [this](const std::string& name, const absl::Status& status) {
      failures_.emplace(name, status);
    };
    auto next = [this, &places, position = size_t{0}]() mutable -> std::optional<NamedRequest> {
      if (position == places.size()) return std::nullopt;
      return RequestAt(plans_, places[position++]);
    };
    return RunBatch(client_, session_, std::move(next), options);
  }

  // The kernels that failed and have another compiler. `code` is kFailed where one has none.
  std::vector<Place> NextOf(const std::vector<Place>& places, ExitCode& code) {
    std::vector<Place> left;
    for (const Place& place : places) {
      TargetPlan& plan = plans_[place.plan];
      const std::string name = KernelName(plan, place.kernel, plans_.size() > 1);
      const auto failure = failures_.find(name);
      if (failure == failures_.end()) continue;
      std::vector<size_t> next;
      if (IsCompilersFault(failure->second)) {
        next = KernelsInPlaceOf(segment_, plan, place.kernel, name, session_.console().err);
      }
      for (const size_t kernel : next) left.push_back({place.plan, kernel});
      if (next.empty() && !plan.kernels[place.kernel].is_dropped) code = kFailed;
    }
    return left;
  }

  // Whether another compiler may do better. A daemon that is full or gone says nothing of this one.
  static bool IsCompilersFault(const absl::Status& status) {
    return IsCompilersVerdict(status) || absl::IsInternal(status) ||
           absl::IsFailedPrecondition(status);
  }

  const graph::Segment& segment_;
  std::vector<TargetPlan> plans_;
  Client& client_;
  Session& session_;
  OutputDirectory* const output_;
  std::map<std::string, absl::Status> failures_;  // of the last batch, by the kernel's name
};

absl::StatusOr<ExitCode> CompileGraph(const GraphArguments& arguments,
                                      const graph::Segment& segment, Session& session) {
  std::unique_ptr<OutputDirectory> output;
  if (!arguments.output.empty()) {
    KILN_ASSIGN_OR_RETURN(
        output, CannotRun(About("cannot write", OutputDirectory::Open(arguments.output))));
  }
  KILN_ASSIGN_OR_RETURN(const auto client, session.Connect());
  KILN_ASSIGN_OR_RETURN(const auto toolchains, client->ListToolchains(session.Call(kQuestionTime)));
  KILN_ASSIGN_OR_RETURN(auto plans, CannotRun(PlansFor(segment, arguments.flags, &toolchains)));
  GraphCompile compile(segment, std::move(plans), *client, session, output.get());
  const ExitCode code = compile.Run();
  if (output != nullptr && code != kCouldNotRun) {
    const std::string steps = arguments.output + "/steps.json";
    KILN_RETURN_IF_ERROR(CannotRun(About(
        "cannot write", WriteFileAtomically(steps, JsonOf(segment, compile.plans(), DumpPretty)))));
  }
  return code;
}

// --- manifest ----------------------------------------------------------------------------------

absl::StatusOr<ExitCode> WriteManifest(const GraphArguments& arguments,
                                       const graph::Segment& segment, Session& session) {
  KILN_ASSIGN_OR_RETURN(const auto plans,
                        CannotRun(PlansFor(segment, arguments.flags, /*toolchains=*/nullptr)));
  KILN_ASSIGN_OR_RETURN(const auto writer,
                        CannotRun(About("cannot write", ManifestWriter::Create(arguments.output))));
  for (const Place& place : AllPlaces(plans)) {
    const NamedRequest named = RequestAt(plans, place);
    KILN_RETURN_IF_ERROR(named.request.status());
    KILN_RETURN_IF_ERROR(About("cannot write", writer->Add(named)));
  }
  v1::ManifestOrigin origin;
  origin.set_job(segment.name);
  KILN_RETURN_IF_ERROR(CannotRun(About("cannot write", writer->Finish(origin))));
  session.console().err << fmt::format("{} in {}\n", FormatCount(writer->requests(), "request"),
                                       arguments.output);
  return kOk;
}

absl::StatusOr<ExitCode> RunGraph(const GraphArguments& arguments, Session& session) {
  KILN_RETURN_IF_ERROR(CannotRun(CheckUsage(arguments)));
  KILN_ASSIGN_OR_RETURN(
      const graph::Segment segment,
      CannotRun(About(arguments.file, ReadGraph(arguments.file, arguments.flags))));
  if (arguments.action == "explain") return ExplainGraph(arguments, segment, session);
  if (arguments.action == "compile") return CompileGraph(arguments, segment, session);
  return WriteManifest(arguments, segment, session);
}

}  // namespace

void AddGraph(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "graph", "Explain, compile, or make a manifest of the kernels of a graph", RunGraph);
  command.Add("ACTION", arguments.action, "explain, compile or manifest", {.is_required = true});
  command.Add("FILE", arguments.file,
              "A segment of a graph as JSON (docs/graph.md), or an ONNX model",
              {.is_required = true, .is_path = true});
  command.Add("--target", arguments.flags.targets,
              "What to compile for: cuda:90, hip:gfx942, spirv:1.2. Repeat it for several",
              {.value_name = "TARGET"});
  command.Add("--compiler", arguments.flags.compiler,
              "ptx, cuda, triton or opencl for every kernel (default: the best for each)");
  command.Add("-o,--output", arguments.output,
              "compile: the folder for artifacts and steps.json; manifest: the new file",
              {.value_name = "PATH", .is_path = true});
  command.Add("--dimension", arguments.flags.dimensions,
              "Of an ONNX model: the range of a dimension, as batch=1..64, or as "
              "batch=1..64:16 where 16 is typical. Repeat it for several",
              {.value_name = "NAME=RANGE"});
  command.Add("--off", arguments.flags.off,
              "Types of sections that the engine keeps, as attention,matmul",
              {.value_name = "TYPES", .separator = ','});
  command.AddFlag("--small", arguments.flags.keeps_small,
                  "Make kernels of small elementwise chains, too");
  command.AddFlag("--no-fusion", arguments.flags.no_fusion, "Make a kernel of each operation");
  command.AddFlag("--no-splits", arguments.flags.no_splits,
                  "Make one kernel for the whole range of every dimension");
  command.AddFlag("--views", arguments.flags.takes_views,
                  "The engine takes outputs that are views of other memory");
  command.Add(
      "--barriers", arguments.flags.barriers,
      "score, always or never: whether small sections become one kernel with grid barriers");
  command.AddFlag("--fast-math", arguments.flags.fast_math,
                  "Let kernels take approximations where they are faster");
}

}  // namespace kiln::cli
