#include <set>
#include <utility>

#include "client/cli/commands/batch.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/request_source.h"
#include "client/cli/output/output_directory.h"
#include "client/cli/requests/request_json.h"
#include "client/cli/requests/sass.h"

namespace kiln::cli {
namespace {

struct CompileArguments {
  std::vector<std::string> files;
  std::string requests;
  std::string output;
  std::string nvdisasm;
  RequestFlags flags;
};

absl::Status CheckUsage(const CompileArguments& arguments) {
  if (arguments.files.empty() && arguments.requests.empty()) {
    return InvalidArgument("name source files, or a file of requests with --requests");
  }
  if (!arguments.files.empty() && !arguments.requests.empty()) {
    return InvalidArgument("name source files or --requests, not both: there is also '{}'",
                           arguments.files.front());
  }
  if (!arguments.files.empty() && arguments.flags.targets.empty()) {
    return InvalidArgument("say what to compile for, as --target cuda:90");
  }
  if (!arguments.requests.empty() &&
      (!arguments.flags.options.empty() || !arguments.flags.kind.empty())) {
    return InvalidArgument(
        "--option and --kind go with source files; a file of requests has them in its lines");
  }
  for (const std::string& file : arguments.files) {
    if (arguments.flags.kind.empty() && file.ends_with(".jsonl")) {
      return InvalidArgument("{} looks like a file of requests: write --requests {}", file, file);
    }
    KILN_RETURN_IF_ERROR(CheckSource(file));
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedRequestSource> OpenSource(const CompileArguments& arguments) {
  KILN_RETURN_IF_ERROR(CheckUsage(arguments));
  KILN_ASSIGN_OR_RETURN(RequestTemplate shape, RequestTemplate::Of(arguments.flags));
  if (arguments.requests.empty()) return FromSourceFiles(arguments.files, std::move(shape));
  KILN_ASSIGN_OR_RETURN(auto file, RequestFile::Open(arguments.requests));
  return FromRequestFile(std::move(file), std::move(shape));
}

bool MayHaveSeveralBackends(const CompileArguments& arguments) {
  if (!arguments.requests.empty()) return true;
  std::set<std::string> backends;
  for (const std::string& target : arguments.flags.targets) {
    backends.insert(target.substr(0, target.find(':')));
  }
  return backends.size() > 1;
}

// With several backends, each request takes the stages of its own backend. With one backend, an
// unknown stage is a mistake of the caller.
absl::Status DivideStages(const CompileArguments& arguments, Client& client,
                          const CallOptions& call, NamedRequestSource& source) {
  if (!MayHaveSeveralBackends(arguments)) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const auto listed, client.ListToolchains(call));
  source = Changed(std::move(source), [listed = listed](v1::CompileRequest& request) {
    DropForeignStages(listed, request);
  });
  return absl::OkStatus();
}

// Null where nothing is written.
absl::StatusOr<std::unique_ptr<OutputDirectory>> OpenOutput(const CompileArguments& arguments) {
  if (arguments.output.empty()) return nullptr;
  KILN_ASSIGN_OR_RETURN(auto output, OutputDirectory::Open(arguments.output));
  if (!arguments.requests.empty()) output->StartIndex();
  return output;
}

absl::StatusOr<ExitCode> RunCompile(const CompileArguments& arguments, Session& session) {
  KILN_ASSIGN_OR_RETURN(NamedRequestSource source, CannotRun(OpenSource(arguments)));
  KILN_ASSIGN_OR_RETURN(const auto output, CannotRun(About("cannot write", OpenOutput(arguments))));
  KILN_ASSIGN_OR_RETURN(const auto client, session.Connect());
  KILN_RETURN_IF_ERROR(DivideStages(arguments, *client, session.Call(kQuestionTime), source));

  BatchOptions options;
  options.requests = arguments.requests;
  options.total = arguments.requests.empty()
                      ? arguments.files.size() * arguments.flags.targets.size()
                      : CountRequests({arguments.requests}, arguments.flags);
  options.nvdisasm = arguments.nvdisasm;
  options.output = output.get();
  return RunBatch(*client, session, std::move(source), options);
}

}  // namespace

void AddCompile(CommandParser& parser) {
  auto [command, arguments] =
      parser.AddSubcommand("compile", "Compile kernels, or get them from the cache", RunCompile);
  command.Add(
      "FILE", arguments.files,
      "Sources: Triton IR, Triton GPU IR (.ttgir), CUDA C++ (.cu), OpenCL C (.cl), PTX (.ptx)",
      {.is_path = true});
  command.Add("--requests", arguments.requests,
              "A file with one JSON request a line; - for the standard input", {.is_path = true});
  command.Add("--option", arguments.flags.options,
              "An option of the compiler, as num_warps=8. Repeat it for several",
              {.value_name = "NAME=VALUE"});
  command.Add("--emit", arguments.flags.stages,
              "The stages to return, as ptx,sass (default: the final binary)",
              {.value_name = "STAGES", .separator = ','});
  command.Add("--nvdisasm", arguments.nvdisasm,
              "What makes the stage sass (default: one of PATH or of a toolchain)",
              {.is_path = true});
  command.Add("--kind", arguments.flags.kind,
              "ttir, ttgir, cuda, opencl or ptx (default: by the file's name)");
  command.Add("-o,--output", arguments.output,
              "Write NAME.<stage> and NAME.json into this directory",
              {.value_name = "DIR", .is_path = true});
  AddRequestFlags(command, arguments.flags);
}

}  // namespace kiln::cli
