// `kiln graph` beside a daemon that answers as a test wants.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/command_line.h"
#include "client/cli/output/console.h"
#include "tests/testing/temp_directory.h"
#include "tests/unit/client/fake_daemon.h"

namespace kiln::cli::graph_command_test {

// A product with a ReLU behind it, and a large elementwise chain.
inline constexpr char kSegment[] = R"({"kiln_segment": 1, "name": "layer",
 "symbols": [{"name": "batch", "max": 4096}],
 "values": [
  {"name": "x", "type": "f16", "shape": ["batch", 64], "role": "input"},
  {"name": "w", "type": "f16", "shape": [64, 16], "role": "constant"},
  {"name": "h", "type": "f16", "shape": ["batch", 16]},
  {"name": "y", "type": "f16", "shape": ["batch", 16], "role": "output"},
  {"name": "n", "type": "f16", "shape": [4096, 4096], "role": "input"},
  {"name": "m", "type": "f16", "shape": [4096, 4096]},
  {"name": "z", "type": "f16", "shape": [4096, 4096], "role": "output"}],
 "operations": [
  {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"]},
  {"op": "Relu", "inputs": ["h"], "outputs": ["y"]},
  {"op": "Neg", "inputs": ["n"], "outputs": ["m"]},
  {"op": "Abs", "inputs": ["m"], "outputs": ["z"]}]})";

class GraphCommandTest : public ::testing::Test {
 protected:
  int Run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    arguments.insert(arguments.begin(), "graph");
    arguments.insert(arguments.end(), {"--root", daemon_.root()});
    return RunCommandLine(std::move(arguments), out_, err_, {});
  }
  std::string Write(const std::string& content) {
    WriteFileOrDie(files_.File("layer.json"), content);
    return files_.File("layer.json");
  }
  std::string Segment() { return Write(kSegment); }
  // With one of the segment's pieces replaced.
  std::string SegmentWith(const std::string& piece, const std::string& other) {
    std::string text = kSegment;
    text.replace(text.find(piece), piece.size(), other);
    return Write(text);
  }
  void AddToolchain(v1::SourceKind kind, const std::string& backend,
                    const std::string& architecture) {
    v1::Toolchain& toolchain = *daemon_.kernels().toolchains.add_toolchains();
    toolchain.add_kinds(kind);
    toolchain.add_backends()->set_backend(backend);
    toolchain.mutable_backends(0)->add_architectures(architecture);
  }
  // Refuses sources of this kind as a compiler does; writes down all that came.
  void Refuse(v1::SourceKind kind) {
    daemon_.kernels().on_stream = [this, kind](FakeKernelService::Stream* stream) {
      v1::CompileStreamRequest request;
      while (stream->Read(&request)) {
        v1::CompileStreamResponse response;
        response.set_id(request.id());
        kinds_.push_back(request.request().source().kind());
        if (kinds_.back() == kind) {
          response.set_code(3);
          response.set_message("parse: expected operation name");
          response.mutable_diagnostics()->set_message("expected operation name");
        } else {
          *response.mutable_response() = AnswerTo(request.request());
        }
        stream->Write(response);
      }
      return grpc::Status::OK;
    };
  }

  FakeDaemon daemon_;
  TempDirectory files_;
  std::vector<v1::SourceKind> kinds_;
  std::ostringstream out_;
  std::ostringstream err_;
};

}  // namespace kiln::cli::graph_command_test
