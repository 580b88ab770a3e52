#include "client/cli/command_line.h"

#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "client/cli/output/console.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/requests/request_json.h"
#include "storage/base/digest.h"
#include "tests/unit/client/fake_daemon.h"

namespace kiln::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The whole command in this process, against a daemon that does as it is told.
class CommandLineTest : public ::testing::Test {
 protected:
  int Run(std::vector<std::string> arguments, const Terminals& terminals = {}) {
    out_.str("");
    err_.str("");
    arguments.insert(arguments.end(), {"--root", daemon_.root()});
    return RunCommandLine(std::move(arguments), out_, err_, terminals);
  }
  std::vector<Json> Objects() const {
    std::vector<Json> objects;
    std::istringstream lines(out_.str());
    for (std::string line; std::getline(lines, line);) objects.push_back(*ParseJson(line));
    return objects;
  }
  std::string Write(const std::string& name, const std::string& content) {
    WriteFileOrDie(files_.File(name), content);
    return files_.File(name);
  }
  std::set<std::string> FilesIn(const std::string& folder) const {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      files.insert(entry.path().filename().string());
    }
    return files;
  }
  // Compiles everything but the sources that say "bad", and "bad before any stage".
  void FailBadSources() {
    daemon_.kernels().on_stream = [](FakeKernelService::Stream* stream) {
      v1::CompileStreamRequest request;
      while (stream->Read(&request)) {
        v1::CompileStreamResponse response;
        response.set_id(request.id());
        const std::string& text = request.request().source().text();
        if (absl::StartsWith(text, "bad")) {
          response.set_code(3);
          response.set_message("parse: expected operation name");
          if (text == "bad") response.mutable_diagnostics()->set_stage("parse");
          response.mutable_diagnostics()->set_message("expected operation name");
          response.mutable_diagnostics()->set_line(2);
          response.mutable_diagnostics()->set_column(5);
          response.mutable_diagnostics()->set_output(
              "the compiler's\nown words of kernel.cu, not of my/kernel.cu or kernel.cuh");
          v1::CompileNote& note = *response.mutable_diagnostics()->add_notes();
          note.set_line(7);
          note.set_message("declared here");
          v1::CompileNote& elsewhere = *response.mutable_diagnostics()->add_notes();
          elsewhere.set_file("a.h");
          elsewhere.set_line(8);
          elsewhere.set_column(9);
          elsewhere.set_message("or there");
        } else {
          *response.mutable_response() = AnswerTo(request.request());
        }
        stream->Write(response);
      }
      return grpc::Status::OK;
    };
  }

  // Lists a toolchain of two backends, and writes down which stages each request wants.
  void NoteStages(std::map<std::string, std::vector<std::string>>& wanted) {
    v1::Toolchain& toolchain = *daemon_.kernels().toolchains.add_toolchains();
    toolchain.add_kinds(v1::SOURCE_KIND_TTIR);
    const std::pair<std::string, std::vector<std::string>> backends[] = {
        {"cuda", {"ttgir", "ptx", "cubin"}}, {"hip", {"ttgir", "amdgcn", "hsaco"}}};
    for (const auto& [name, stages] : backends) {
      v1::Backend& backend = *toolchain.add_backends();
      backend.set_backend(name);
      backend.mutable_stages()->Assign(stages.begin(), stages.end());
    }
    daemon_.kernels().on_stream = [&wanted](FakeKernelService::Stream* stream) {
      v1::CompileStreamRequest request;
      while (stream->Read(&request)) {
        const auto& stages = request.request().stages();
        wanted[TargetName(request.request().target())].assign(stages.begin(), stages.end());
        v1::CompileStreamResponse response;
        response.set_id(request.id());
        *response.mutable_response() = AnswerTo(request.request());
        stream->Write(response);
      }
      return grpc::Status::OK;
    };
  }

  FakeDaemon daemon_;
  TempDirectory files_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(CommandLineTest, CompilesFilesIntoAFolder) {
  const std::string source = Write("softmax.ttir", "m");
  const std::string folder = files_.File("out");
  EXPECT_EQ(Run({"compile", source, "--target", "cuda:90", "-o", folder}), 0) << err_.str();
  EXPECT_EQ(FilesIn(folder), (std::set<std::string>{"softmax.cubin", "softmax.json"}));
  EXPECT_THAT(out_.str(), HasSubstr("softmax\tcuda:90\tcompiled\t"));
  EXPECT_THAT(out_.str(), HasSubstr("\t" + Digest::Of("m").Hex() + "\t"));
  EXPECT_EQ(Run({"compile", source, "--target", "cuda:90", "--table"}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("  " + Digest::Of("m").Hex().substr(0, 12) + "\n"));
}

TEST_F(CommandLineTest, SendsWhatTheFlagsSay) {
  v1::CompileRequest seen;
  daemon_.kernels().on_stream = [&](FakeKernelService::Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      seen = request.request();
      v1::CompileStreamResponse response;
      response.set_id(request.id());
      *response.mutable_response() = AnswerTo(request.request());
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  const std::string source = Write("k.cu", "m");
  EXPECT_EQ(Run({"compile", source, "--target", "hip:gfx942", "--option", "num_warps=8", "--option",
                 "dot=tf32", "--toolchain", "triton==3.6.0", "--emit", "ptx,cubin", "--cache",
                 "refresh", "--priority", "background", "--job", "j"}),
            0)
      << err_.str();
  EXPECT_EQ(seen.source().kind(), v1::SOURCE_KIND_CUDA_CXX);
  EXPECT_EQ(seen.source().name(), "k");
  EXPECT_EQ(seen.target().architecture(), "gfx942");
  EXPECT_EQ(seen.options().at("num_warps").int_value(), 8);
  EXPECT_EQ(seen.options().at("dot").string_value(), "tf32");
  EXPECT_EQ(seen.toolchain(), "triton==3.6.0");
  EXPECT_THAT(seen.stages(), ElementsAre("ptx", "cubin"));
  EXPECT_EQ(seen.cache_policy(), v1::CACHE_POLICY_REFRESH);
  EXPECT_EQ(seen.priority(), v1::PRIORITY_BACKGROUND);
  EXPECT_EQ(seen.job(), "j");
}

TEST_F(CommandLineTest, SeveralTargetsStandInTheNames) {
  const std::string source = Write("k.ttir", "m");
  const std::string folder = files_.File("out");
  EXPECT_EQ(Run({"compile", source, "--target", "cuda:80", "--target", "cuda:90", "-o", folder}),
            0);
  EXPECT_EQ(FilesIn(folder), (std::set<std::string>{"k.cuda-80.cubin", "k.cuda-80.json",
                                                    "k.cuda-90.cubin", "k.cuda-90.json"}));
}

TEST_F(CommandLineTest, RequestsForTwoBackendsRequestTheirOwnStages) {
  std::map<std::string, std::vector<std::string>> wanted;
  NoteStages(wanted);
  const std::string requests =
      Write("r.jsonl",
            "{\"source\": \"a\", \"target\": \"cuda:90\"}\n"
            "{\"source\": \"b\", \"target\": \"hip:gfx942\"}\n"
            "{\"source\": \"c\", \"target\": \"cuda:80\", \"stages\": [\"hsaco\", \"cubin\"]}\n");
  EXPECT_EQ(Run({"compile", "--requests", requests, "--emit", "ttgir,ptx,amdgcn"}), 0)
      << err_.str();
  EXPECT_THAT(wanted["cuda:90"], ElementsAre("ttgir", "ptx"));
  EXPECT_THAT(wanted["hip:gfx942"], ElementsAre("ttgir", "amdgcn"));
  EXPECT_THAT(wanted["cuda:80"], ElementsAre("cubin"));
}

TEST_F(CommandLineTest, RequestWithOnlyForeignStagesKeepsThem) {
  std::map<std::string, std::vector<std::string>> wanted;
  NoteStages(wanted);
  const std::string requests =
      Write("r.jsonl", "{\"source\": \"a\", \"target\": \"hip:gfx942\"}\n");
  EXPECT_EQ(Run({"compile", "--requests", requests, "--emit", "ptx,cubin"}), 0);
  EXPECT_THAT(wanted["hip:gfx942"], ElementsAre("ptx", "cubin"));
}

TEST_F(CommandLineTest, TheBarCountsEachLineForEachTarget) {
  const std::string requests = Write("r.jsonl", "{\"source\": \"a\"}\n{\"source\": \"b\"}\n");
  EXPECT_EQ(Run({"compile", "--requests", requests, "--target", "cuda:80", "--target", "cuda:90"},
                {.out = false, .err = true, .color = false}),
            0);
  EXPECT_THAT(err_.str(), HasSubstr("] 0/4"));
}

TEST_F(CommandLineTest, TheBarCountsNoLineThatIsNoRequest) {
  const std::string requests = Write("r.jsonl",
                                     "{\"manifest\": {\"job\": \"a\"}}\n"
                                     "{\"source\": \"a\"}\n"
                                     "{\"own\": {\"key\": \"\"}}\n");
  EXPECT_EQ(
      Run({"warm", requests, "--target", "cuda:80"}, {.out = false, .err = true, .color = false}),
      0);
  EXPECT_THAT(err_.str(), HasSubstr("] 0/1"));
}

TEST_F(CommandLineTest, SourceFilesForTwoBackendsRequestTheirOwnStages) {
  std::map<std::string, std::vector<std::string>> wanted;
  NoteStages(wanted);
  const std::string source = Write("k.ttir", "m");
  EXPECT_EQ(Run({"compile", source, "--target", "cuda:90", "--target", "hip:gfx942", "--emit",
                 "cubin,hsaco"}),
            0);
  EXPECT_THAT(wanted["cuda:90"], ElementsAre("cubin"));
  EXPECT_THAT(wanted["hip:gfx942"], ElementsAre("hsaco"));
}

TEST_F(CommandLineTest, SourceFilesForOneBackendRequestTheNamedStages) {
  std::map<std::string, std::vector<std::string>> wanted;
  NoteStages(wanted);
  const std::string source = Write("k.ttir", "m");
  EXPECT_EQ(Run({"compile", source, "--target", "cuda:90", "--target", "cuda:80", "--emit",
                 "cubin,hsaco"}),
            0);
  EXPECT_THAT(wanted["cuda:90"], ElementsAre("cubin", "hsaco"));
  EXPECT_THAT(wanted["cuda:80"], ElementsAre("cubin", "hsaco"));
}

TEST_F(CommandLineTest, AnswersRequestsAsJsonLines) {
  FailBadSources();
  const std::string requests =
      Write("r.jsonl",
            "{\"name\": \"good\", \"source\": \"m\", \"target\": \"cuda:90\"}\n"
            "nonsense\n"
            "{\"name\": \"worse\", \"source\": \"bad\", \"target\": \"cuda:90\"}\n");
  EXPECT_EQ(Run({"compile", "--requests", requests, "--json"}), 1);
  const auto objects = Objects();
  ASSERT_EQ(objects.size(), 4u);
  std::map<std::string, Json> by_name;
  for (size_t i = 0; i < 3; ++i) by_name[objects[i].at("name").get<std::string>()] = objects[i];
  const Json& good = by_name.at("good");
  EXPECT_EQ(good.at("outcome"), "compiled");
  EXPECT_EQ(good.at("key"), Digest::Of("m").Hex());
  EXPECT_EQ(good.at("bytes"), std::string("cubin of m").size());
  EXPECT_TRUE(good.at("tier").is_null());
  EXPECT_TRUE(good.at("error").is_null());
  EXPECT_TRUE(good.at("ms").is_number());
  EXPECT_EQ(by_name.at("line-2").at("line"), 2);
  EXPECT_EQ(by_name.at("line-2").at("outcome"), "failed");
  const Json& worse = by_name.at("worse");
  EXPECT_EQ(worse.at("code"), "INVALID_ARGUMENT");
  EXPECT_EQ(worse.at("error"), "parse: expected operation name");
  EXPECT_EQ(worse.at("diagnostics").at("line"), 2);
  EXPECT_EQ(worse.at("diagnostics").at("notes").at(1),
            Json({{"file", "a.h"}, {"line", 8}, {"column", 9}, {"message", "or there"}}));
  EXPECT_EQ(objects[3].at("summary").at("requests"), 3);
  EXPECT_EQ(objects[3].at("summary").at("failed"), 2);
  EXPECT_EQ(objects[3].at("summary").at("compiled"), 1);
}

TEST_F(CommandLineTest, ManyRequestsWithTheSameHostileName) {
  std::string lines;
  for (int i = 0; i < 500; ++i) {
    lines += "{\"name\": \"../x\", \"source\": \"" + std::to_string(i) + "\"}\n";
  }
  const std::string folder = files_.File("out");
  EXPECT_EQ(Run({"compile", "--requests", Write("r.jsonl", lines), "--target", "cuda:90", "-o",
                 folder, "--json"}),
            0)
      << err_.str();
  // Two files each, and the index. Answers come in any order, names are given in that of the
  // requests.
  EXPECT_EQ(FilesIn(folder).size(), 1001u);
  EXPECT_EQ(ReadFileOrDie(folder + "/%2E.%2Fx.cubin"), "cubin of 0");
  EXPECT_EQ(ReadFileOrDie(folder + "/%2E.%2Fx~500.cubin"), "cubin of 499");
  EXPECT_EQ(ParseJson(ReadFileOrDie(folder + "/index.json"))->size(), 500u);
  EXPECT_EQ(FilesIn(files_.path()), (std::set<std::string>{"out", "r.jsonl"}));
}

TEST_F(CommandLineTest, AFailureNamesTheFileAsItWasGiven) {
  FailBadSources();
  const std::string source = Write("k.cu", "bad");
  const std::string words =
      ":2:5: parse: expected operation name\n  " + source +
      ":7: note: declared here\n  a.h:8:9: note: or there\n    the compiler's\n    own words of " +
      source + ", not of my/kernel.cu or kernel.cuh\n";
  EXPECT_EQ(Run({"compile", source, "--target", "cuda:90"}), 1);
  EXPECT_THAT(err_.str(), StartsWith(source + words));
  EXPECT_EQ(Run({"compile", source, "--target", "cuda:90", "--target", "cuda:100"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("k.cuda-100: " + source + words));
  const std::string line =
      "{\"name\": \"one\", \"source_file\": \"k.cu\", \"target\": \"cuda:90\"}";
  EXPECT_EQ(Run({"compile", "--requests", Write("r.jsonl", line)}), 1);
  EXPECT_THAT(err_.str(), StartsWith("one: k.cu:2:5: parse"));
}

TEST_F(CommandLineTest, FailureWithoutAFileNamesTheKernel) {
  FailBadSources();
  const std::string line = R"({"name": "k", "source": "bad", "target": "cuda:90"})";
  EXPECT_EQ(Run({"compile", "--requests", Write("r.jsonl", line)}), 1);
  EXPECT_THAT(err_.str(), StartsWith("k:2:5: parse: expected operation name\n"
                                     "  k:7: note: declared here\n"
                                     "  a.h:8:9: note: or there\n"
                                     "    the compiler's\n    own words of kernel.cu, not"));
}

TEST_F(CommandLineTest, AFailureBeforeAnyStageNamesNone) {
  FailBadSources();
  const std::string line =
      R"({"name": "k", "source": "bad before any stage", "target": "cuda:90"})";
  EXPECT_EQ(Run({"compile", "--requests", Write("r.jsonl", line)}), 1);
  EXPECT_THAT(err_.str(), StartsWith("k:2:5: expected operation name\n"));
}

TEST_F(CommandLineTest, AFolderThatCannotBeMadeIsSaidBeforeAnythingRuns) {
  const std::string source = Write("k.ttir", "m");
  EXPECT_EQ(Run({"compile", source, "--target", "cuda:90", "-o", source}), 2);
  EXPECT_EQ(daemon_.kernels().streams, 0);
}

TEST_F(CommandLineTest, AWarmForAnotherToolchainHasTime) {
  const std::string requests = Write("r.jsonl", "{\"source\": \"a\", \"target\": \"cuda:80\"}\n");
  v1::Priority seen = v1::PRIORITY_UNSPECIFIED;
  daemon_.kernels().on_stream = [&](FakeKernelService::Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      seen = request.request().priority();
      v1::CompileStreamResponse response;
      response.set_id(request.id());
      *response.mutable_response() = AnswerTo(request.request());
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"warm", requests, "--toolchain", "triton==3.7.1"}), 0);
  EXPECT_EQ(seen, v1::PRIORITY_BACKGROUND);
  EXPECT_EQ(Run({"warm", requests, "--toolchain", "triton==3.7.1", "--priority", "warm"}), 0);
  EXPECT_EQ(seen, v1::PRIORITY_WARM);
}

TEST_F(CommandLineTest, AWarmCountsForTheJobThatItsLinesName) {
  std::string seen;
  daemon_.kernels().on_stream = [&](FakeKernelService::Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      seen = request.request().job();
      v1::CompileStreamResponse response;
      response.set_id(request.id());
      *response.mutable_response() = AnswerTo(request.request());
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  const std::string request = "{\"source\": \"m\", \"target\": \"cuda:80\"}\n";
  const std::string of_a = "{\"manifest\": {\"job\": \"a\"}}\n";
  const std::string of_b = "{\"manifest\": {\"job\": \"b\"}}\n";
  const std::string a = Write("a.jsonl", of_a + request + of_a);
  const std::string both = Write("both.jsonl", request + of_a + of_b);
  const std::string b = Write("b.jsonl", of_b);
  const std::string none = Write("none.jsonl", request);
  const std::string compressed = files_.File("a.kiln");
  ASSERT_EQ(Run({"manifest", "merge", a, "-o", compressed}), 0);
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{a}, "a"}, {{a, compressed}, "a"}, {{both}, ""}, {{a, b}, ""}, {{none, a}, ""}, {{none}, ""},
  };
  ::unsetenv("SLURM_JOB_ID");
  for (const char* of_surroundings : {"", "here"}) {
    ::setenv("KILN_JOB", of_surroundings, 1);
    for (const auto& [files, job] : cases) {
      std::vector<std::string> arguments = files;
      arguments.insert(arguments.begin(), {"warm", "--cache", "refresh"});
      EXPECT_EQ(Run(arguments), 0) << err_.str();
      EXPECT_EQ(seen, *of_surroundings == '\0' ? job : of_surroundings);
    }
  }
  ::unsetenv("KILN_JOB");
}

TEST_F(CommandLineTest, WarmsEveryLineForEveryTarget) {
  const std::string requests = Write("r.jsonl",
                                     "{\"source\": \"a\", \"target\": \"cuda:80\"}\n"
                                     "{\"source\": \"b\", \"target\": \"cuda:80\"}\n");
  std::mutex mutex;
  std::multiset<std::string> seen;
  daemon_.kernels().on_stream = [&](FakeKernelService::Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      const std::lock_guard lock(mutex);
      seen.insert(request.request().source().text() + request.request().target().architecture());
      EXPECT_EQ(request.request().priority(), v1::PRIORITY_WARM);
      v1::CompileStreamResponse response;
      response.set_id(request.id());
      *response.mutable_response() = AnswerTo(request.request());
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"warm", requests, "--target", "cuda:90", "--target", "cuda:100", "--json"}), 0);
  EXPECT_EQ(seen, (std::multiset<std::string>{"a90", "a100", "b90", "b100"}));
  EXPECT_EQ(Objects().back().at("summary").at("requests"), 4);
  seen.clear();
  EXPECT_EQ(Run({"warm", requests}, {.out = true, .err = true, .color = false}), 0);
  EXPECT_EQ(seen, (std::multiset<std::string>{"a80", "b80"}));
  EXPECT_EQ(out_.str(), "");
  EXPECT_THAT(err_.str(), HasSubstr("2 compiled, 0 failed"));
}

TEST_F(CommandLineTest, WarmWantsNoStageBack) {
  std::map<std::string, std::vector<std::string>> wanted;
  NoteStages(wanted);
  const std::string requests = Write("r.jsonl", "{\"source\": \"a\", \"stages\": [\"ptx\"]}\n");
  EXPECT_EQ(Run({"warm", requests, "--target", "hip:gfx942"}), 0);
  EXPECT_THAT(wanted.at("hip:gfx942"), ElementsAre());
}

TEST_F(CommandLineTest, AWaitGoesOnWhereADaemonThatEndsCancelsItsCall) {
  const auto answer = [](FakeKernelService::Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      v1::CompileStreamResponse response;
      response.set_id(request.id());
      *response.mutable_response() = AnswerTo(request.request());
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  daemon_.kernels().on_stream = [&](FakeKernelService::Stream* stream) {
    return daemon_.kernels().streams == 1 ? grpc::Status(grpc::StatusCode::CANCELLED, "")
                                          : answer(stream);
  };
  const std::string path = Write("requests.jsonl", R"({"name": "k", "source": "k"})");
  EXPECT_EQ(Run({"wait", path, "--target", "cuda:90"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "complete: 1 of 1 kernel stored\n");
  EXPECT_EQ(daemon_.kernels().streams, 2);
}

TEST_F(CommandLineTest, WarmSaysWhatFailed) {
  FailBadSources();
  const std::string requests = Write("r.jsonl", "{\"name\": \"k\", \"source\": \"bad\"}\n");
  EXPECT_EQ(Run({"warm", requests, "--target", "cuda:90"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("k:2:5: parse"));
  EXPECT_EQ(Run({"warm", files_.File("none")}), 2);
}

TEST_F(CommandLineTest, AnActionOfAManifestRefusesFlagsOfOthers) {
  const std::string lines = Write("r.jsonl", R"({"source": "a", "target": "cuda:90"})");
  const std::string made = files_.File("made.kiln");
  for (const char* action : {"show", "diff", "check"}) {
    EXPECT_EQ(Run({"manifest", action, lines, lines, "-o", made}), 2);
    EXPECT_THAT(err_.str(), HasSubstr(fmt::format("{} takes no -o; merge and subset do", action)));
  }
  for (const char* action : {"show", "diff", "check", "merge"}) {
    for (const char* flag : {"--kernel", "--target", "--shard"}) {
      EXPECT_EQ(Run({"manifest", action, lines, lines, flag, "1/1"}), 2);
      EXPECT_THAT(err_.str(), HasSubstr(fmt::format("{} takes no {}; subset does", action, flag)));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(made));
  EXPECT_EQ(Run({"manifest", "subset", lines, "-o", made, "--kernel", "line", "--target", "cuda:90",
                 "--shard", "1/1"}),
            0);
}

TEST_F(CommandLineTest, ACheckGoesOnBehindAFileThatItCannotOpen) {
  const std::string lines = Write("r.jsonl", R"({"source": "a", "target": "cuda:90"})");
  const std::string good = files_.File("good.kiln");
  ASSERT_EQ(Run({"manifest", "merge", lines, "-o", good}), 0) << err_.str();
  const std::string whole = *ReadSource(good);
  const std::string foreign = Write("foreign.kiln", "KILNBDL\n" + whole.substr(8));
  const std::string cut_off = Write("cut_off.kiln", whole.substr(0, whole.size() - 10));
  EXPECT_EQ(Run({"manifest", "check", cut_off, foreign, good}), 1);
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("kiln: " + cut_off), HasSubstr("kiln: " + foreign)));
  EXPECT_THAT(out_.str(), StartsWith(good + ": 1 request, "));
  EXPECT_EQ(Run({"manifest", "check", files_.File("none"), cut_off, good}), 2);
  EXPECT_THAT(out_.str(), StartsWith(good + ": 1 request, "));
}

TEST_F(CommandLineTest, AFileWithoutRequestsIsNamed) {
  const std::string requests = Write("r.jsonl", "\n \n");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"warm", requests},
                                                    {"warm", requests, "--json"},
                                                    {"compile", "--requests", requests}}) {
    EXPECT_EQ(Run(arguments), 0);
    EXPECT_THAT(err_.str(), HasSubstr("kiln: " + requests + ": there are no requests in it"));
  }
}

// The daemon knows only the digest, and names it also where it has that ptxas but cannot use it.
TEST_F(CommandLineTest, MissingPtxasIsNamedByItsFile) {
  daemon_.kernels().on_stream = [](FakeKernelService::Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      v1::CompileStreamResponse response;
      response.set_id(request.id());
      response.set_code(9);
      response.set_message("no toolchain fits: ptxas " + request.request().ptxas());
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  const std::string source = Write("k.ptx", "m");
  const std::string ptxas = Write("ptxas", "its bytes");
  const std::string words = ptxas + ": the daemon has no ptxas of these bytes";
  const std::vector<std::string> compile = {"compile", source,    "--target",
                                            "cuda:90", "--ptxas", ptxas};
  EXPECT_EQ(Run(compile), 1);
  EXPECT_THAT(err_.str(), HasSubstr(words));
  EXPECT_THAT(err_.str(), HasSubstr("'kiln toolchain add ptxas --path DIR'"));
  const std::string line =
      "{\"source\": \"m\", \"target\": \"cuda:90\", \"ptxas\": \"" + ptxas + "\"}";
  EXPECT_EQ(Run({"compile", "--requests", Write("r.jsonl", line), "--json"}), 1);
  EXPECT_THAT(out_.str(), HasSubstr(words));
  EXPECT_EQ(Run({"compile", source, "--target", "cuda:90", "--ptxas", "ptxas==1.2"}), 1);
  EXPECT_THAT(err_.str(), Not(HasSubstr("of these bytes")));

  v1::Toolchain& served = *daemon_.kernels().toolchains.add_toolchains();
  served.set_fingerprint(std::string(Digest::Of("its bytes").Bytes()));
  EXPECT_EQ(Run(compile), 1);
  EXPECT_THAT(err_.str(), HasSubstr("no toolchain fits"));
  EXPECT_THAT(err_.str(), Not(HasSubstr("of these bytes")));
}

// The daemon lists the toolchains that it has by the first digits of their fingerprints.
TEST_F(CommandLineTest, PtxasFileIsNotNamedWhereAnotherToolchainIsMissing) {
  const std::string ptxas = Write("ptxas", "the daemon has it");
  const std::string digits = Digest::Of("the daemon has it").Hex().substr(0, 12);
  daemon_.kernels().toolchains.add_toolchains()->set_fingerprint(
      std::string(Digest::Of("the daemon has it").Bytes()));
  daemon_.kernels().on_stream = [&](FakeKernelService::Stream* stream) {
    v1::CompileStreamRequest request;
    while (stream->Read(&request)) {
      v1::CompileStreamResponse response;
      response.set_id(request.id());
      response.set_code(9);
      response.set_message(
          "no toolchain here is \"triton==9.9.9\"; there are ptxas==12.8.93 (sha256 " + digits +
          ")");
      stream->Write(response);
    }
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"compile", Write("k.ptx", "m"), "--target", "cuda:90", "--ptxas", ptxas}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("triton==9.9.9"));
  EXPECT_THAT(err_.str(), Not(HasSubstr(ptxas)));
}

TEST_F(CommandLineTest, GetsAStoredStage) {
  daemon_.kernels().AddBlob("the binary");
  const std::string key = Digest::Of("the binary").Hex();
  EXPECT_EQ(Run({"get", key}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "the binary");
  EXPECT_EQ(Run({"get", key, "--stage", "cubin", "-o", files_.File("f")}), 0);
  EXPECT_EQ(ReadFileOrDie(files_.File("f")), "the binary");
  EXPECT_EQ(Run({"get", key, "--stage", "ptx"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("there are cubin"));
  EXPECT_EQ(Run({"get", Digest::Of("other").Hex()}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("not in the cache"));
}

// The message does not send the caller to the daemon's log.
TEST_F(CommandLineTest, UnwritableOutputFileIsNotTheDaemonsFailure) {
  daemon_.kernels().AddBlob("the binary");
  const std::string key = Digest::Of("the binary").Hex();
  EXPECT_EQ(Run({"get", key, "-o", files_.path()}), 2);
  EXPECT_EQ(err_.str(), "kiln: cannot write: " + files_.path() + ": Is a directory\n");
  EXPECT_EQ(Run({"get", key, "-o", files_.File("none/x")}), 2);
  EXPECT_EQ(err_.str(),
            "kiln: cannot write: " + files_.File("none/x") + ": No such file or directory\n");
}

TEST_F(CommandLineTest, ABinaryDoesNotGarbleTheTerminal) {
  const std::string binary(
      "\x7f"
      "ELF\0",
      5);
  daemon_.kernels().AddBlob(binary);
  EXPECT_EQ(Run({"get", Digest::Of(binary).Hex()}, {.out = true, .err = true, .color = false}), 2);
  EXPECT_EQ(out_.str(), "");
  EXPECT_EQ(Run({"get", Digest::Of(binary).Hex()}), 0);
  EXPECT_EQ(out_.str(), binary);
}

class AdminCommandTest : public CommandLineTest {
 protected:
  AdminCommandTest() {
    for (char c = 'a'; c < 'f'; ++c) {
      admin::v1::ArtifactSummary artifact;
      artifact.set_key(std::string(32, c));
      artifact.set_name(std::string("kernel_") + c);
      artifact.mutable_target()->set_backend("cuda");
      artifact.mutable_target()->set_architecture("90");
      artifact.set_size_bytes(2048);
      artifact.set_pinned(c == 'b');
      artifact.set_options("BLOCK=64");
      daemon_.admin().artifacts.push_back(artifact);
    }
  }

  void SetMetric(const std::string& name, double value) {
    admin::v1::Metric& metric = *daemon_.admin().stats.add_metrics();
    metric.set_name(name);
    metric.set_value(value);
  }
  static std::string Key(char c) { return Hex(std::string(32, c)); }
};

TEST_F(AdminCommandTest, ListsArtifacts) {
  EXPECT_EQ(Run({"ls"}), 0);
  const std::string listed = out_.str();
  EXPECT_EQ(std::count(listed.begin(), listed.end(), '\n'), 5);
  EXPECT_THAT(out_.str(),
              HasSubstr(Key('b') + "\tkernel_b\tcuda:90\t\t2048\t0\t0\tpinned\tBLOCK=64\n"));
  EXPECT_THAT(err_.str(), HasSubstr("5 artifacts, 10.0 KiB, 0 hits, "));
  EXPECT_EQ(Run({"ls", "--table"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("616161616161  kernel_a  cuda:90"));
  EXPECT_THAT(out_.str(), HasSubstr("2.0 KiB"));
  EXPECT_EQ(Run({"ls", "63", "--json"}), 0);
  EXPECT_EQ(Objects().size(), 1u);
  EXPECT_EQ(Run({"ls", "--limit", "2", "--json"}), 0);
  EXPECT_EQ(Objects().size(), 2u);
}

TEST_F(AdminCommandTest, InspectsByTheBeginningOfAKey) {
  EXPECT_EQ(Run({"inspect", "6363"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("metadata.name\tkernel_c\n"));
  EXPECT_THAT(out_.str(), HasSubstr("key\t" + Key('c') + "\n"));
  EXPECT_THAT(out_.str(), HasSubstr("size_bytes\t2048\n"));
  EXPECT_EQ(Run({"inspect", "6363", "--table"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("  entry point       kernel_c\n"));
  EXPECT_THAT(out_.str(), HasSubstr("  last use      never\n"));
  EXPECT_EQ(Run({"inspect", "6363", "--json"}), 0);
  EXPECT_EQ(Objects().front().at("metadata").at("name"), "kernel_c");
  EXPECT_EQ(Run({"inspect", "ffff"}), 1);
}

TEST_F(AdminCommandTest, Evicts) {
  daemon_.admin().eviction.set_evicted(1);
  EXPECT_EQ(Run({"evict", "6363", Key('d'), "--force"}), 0);
  EXPECT_THAT(daemon_.admin().evicted.keys(),
              ElementsAre(std::string(32, 'c'), std::string(32, 'd')));
  EXPECT_TRUE(daemon_.admin().evicted.force());
  EXPECT_EQ(Run({"evict", "--all"}), 0);
  EXPECT_TRUE(daemon_.admin().evicted.all());
  EXPECT_EQ(Run({"evict", "--to", "5G"}), 0);
  EXPECT_EQ(daemon_.admin().evicted.target_bytes(), 5ull << 30);
  *daemon_.admin().eviction.add_kept_pinned() = std::string(32, 'b');
  EXPECT_EQ(Run({"evict", Key('b')}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("is pinned\n  try: --force"));
}

TEST_F(AdminCommandTest, EvictNamesKeysThatAreNotStored) {
  daemon_.admin().eviction.set_evicted(1);
  *daemon_.admin().eviction.add_not_found() = std::string(32, 'z');
  EXPECT_EQ(Run({"evict", "ffff0000", "6363", Key('z'), "--json"}), 1);
  EXPECT_THAT(daemon_.admin().evicted.keys(),
              ElementsAre(std::string(32, 'c'), std::string(32, 'z')));
  EXPECT_EQ(Objects().at(0).at("evicted"), 1);
  EXPECT_EQ(Objects().at(0).at("not_found"), Json({"ffff0000", Key('z')}));
  daemon_.admin().evicted.Clear();
  EXPECT_EQ(Run({"evict", "ffff0000"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("kiln: ffff0000: not in the cache\n"));
  EXPECT_EQ(daemon_.admin().evicted.keys_size(), 0);
}

TEST_F(AdminCommandTest, MarksOwnEntriesInTheList) {
  admin::v1::ArtifactSummary own;
  own.set_key(std::string(32, 'x'));
  own.set_own_uid(1000);
  own.set_size_bytes(7);
  daemon_.admin().artifacts = {own};
  EXPECT_EQ(Run({"ls"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr(Key('x') + "\t(own entry of uid 1000)\t\t\t7\t"));
  EXPECT_THAT(err_.str(), HasSubstr("0 artifacts and 1 of own namespaces, 7 B, "));
  EXPECT_EQ(Run({"ls", "--json"}), 0);
  EXPECT_EQ(Objects().back().at("own_uid"), 1000);
}

TEST_F(AdminCommandTest, TakesANameWhereAKeyIs) {
  EXPECT_EQ(Run({"inspect", "kernel_c"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("key\t" + Key('c') + "\n"));
  EXPECT_EQ(Run({"pin", "kernel_d"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("pinned " + Key('d')));
  const std::string command[] = {"inspect", "get", "pin", "reproduce"};
  for (const std::string& name : command) {
    EXPECT_EQ(Run({name, "kernel"}), 1) << name;
    EXPECT_THAT(err_.str(), HasSubstr("kiln: kernel: no stored artifact has a key that begins so"))
        << name;
    EXPECT_EQ(Run({name, ""}), 2) << name;
  }
}

TEST_F(AdminCommandTest, ListsWhatANameMayMean) {
  for (auto& artifact : daemon_.admin().artifacts) artifact.set_name("matmul");
  EXPECT_EQ(Run({"inspect", "matmul"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("several kernels have that name; name one by its key: "
                                    "616161616161 (cuda:90 BLOCK=64), 626262626262 (cuda:90"));
}

TEST_F(AdminCommandTest, ListsAKernelWhoseNameCouldBeginAKey) {
  daemon_.admin().artifacts[2].set_name("add");
  EXPECT_EQ(Run({"ls", "add", "--json"}), 0);
  ASSERT_EQ(Objects().size(), 1u);
  EXPECT_EQ(Objects()[0].at("name"), "add");
}

TEST_F(AdminCommandTest, AWideTerminalShowsAllOptions) {
  const std::string options(90, 'o');
  daemon_.admin().artifacts[0].set_options(options);
  EXPECT_EQ(Run({"ls"}, {.out = true, .columns = 250}), 0);
  EXPECT_THAT(out_.str(), HasSubstr(options + "\n"));
}

TEST_F(AdminCommandTest, SortsAndFilters) {
  for (auto& artifact : daemon_.admin().artifacts) {
    artifact.set_compile_micros(static_cast<uint8_t>(artifact.key()[0]) % 3);
  }
  EXPECT_EQ(Run({"ls", "--sort", "compile-time", "--limit", "2", "--json"}), 0);
  ASSERT_EQ(Objects().size(), 2u);
  EXPECT_EQ(Objects()[0].at("name"), "kernel_b");
  EXPECT_EQ(Objects()[1].at("name"), "kernel_e");
  EXPECT_EQ(Run({"ls", "kernel_b", "--target", "cuda", "--toolchain", "triton", "--job", "train",
                 "--user", "1000", "--json"}),
            0);
  const auto& listed = daemon_.admin().listed;
  EXPECT_EQ(listed.kernel(), "kernel_b");
  EXPECT_EQ(listed.target() + listed.toolchain() + listed.job(), "cudatritontrain");
  EXPECT_EQ(listed.uid(), 1000u);
  EXPECT_EQ(Run({"ls", "--sort", "beauty"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("give size, age, use or compile-time"));
}

TEST_F(AdminCommandTest, AListFitsItsTerminal) {
  for (auto& artifact : daemon_.admin().artifacts) {
    artifact.set_name(std::string(100, 'n'));
    artifact.set_options("BLOCK_M=128 BLOCK_N=128 BLOCK_K=64 warps=8 stages=4");
    artifact.set_hits(123456);
  }
  EXPECT_EQ(Run({"ls"}, {.out = true, .columns = 80}), 0);
  std::istringstream lines(out_.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(DisplayWidth(line), 80u) << line;
  EXPECT_THAT(out_.str(), HasSubstr("nnn…"));
  EXPECT_THAT(out_.str(), HasSubstr("BLOCK_M=128"));
}

TEST_F(AdminCommandTest, WhereAdministrationIsClosedStatsAndListAreTheCallersOwn) {
  admin::v1::JobActivity& job = *daemon_.own().stats.add_jobs();
  job.set_uid(4'000'000);
  job.set_job("train");
  job.set_hot(3);
  job.set_compiled(1);
  job.set_saved_micros(2'000'000);
  daemon_.own().artifacts = {daemon_.admin().artifacts[1]};
  daemon_.CloseAdministration();
  EXPECT_EQ(Run({"stats", "--table"}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("your own jobs only"));
  EXPECT_THAT(out_.str(), HasSubstr("75.0 % of 4 kernels"));
  EXPECT_THAT(out_.str(), HasSubstr("2.00 s of compiling"));
  EXPECT_THAT(out_.str(), HasSubstr("4000000  train     3    3    0         1       0  2.00 s"));
  EXPECT_EQ(Run({"ls", "--json"}), 0);
  ASSERT_EQ(Objects().size(), 1u);
  EXPECT_EQ(Objects()[0].at("name"), "kernel_b");
  EXPECT_EQ(Run({"inspect", "kernel_b"}), 2);
}

TEST_F(AdminCommandTest, CompositionsAreForTheVerbose) {
  daemon_.admin().stats.set_compile_path("counting(pooled)");
  daemon_.admin().stats.set_state("serving");
  SetMetric("workers_crashed", 2);
  EXPECT_EQ(Run({"stats", "--table"}), 0);
  EXPECT_THAT(out_.str(), StartsWith("Kiln\n  hit rate  nothing asked for yet\n"));
  EXPECT_THAT(out_.str(), HasSubstr("  health    serving; 2 workers crashed\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("counting(pooled)")));
  EXPECT_EQ(Run({"stats", "--table", "--verbose"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("counting(pooled)"));
}

TEST_F(AdminCommandTest, EvictNeedsExactlyOneWay) {
  EXPECT_EQ(Run({"evict"}), 2);
  EXPECT_EQ(Run({"evict", "--all", "--to", "5G"}), 2);
  EXPECT_EQ(Run({"evict", "--all", "--force"}), 2);
  EXPECT_EQ(Run({"evict", "--to", "much"}), 2);
  EXPECT_EQ(Run({"evict", "--to", "5GB"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("GB means two things"));
}

TEST_F(AdminCommandTest, PinsAndReleases) {
  EXPECT_EQ(Run({"pin", "6161", "6262"}), 0);
  EXPECT_EQ(Run({"pin", "6161", "--unpin"}), 0);
  ASSERT_EQ(daemon_.admin().pins.size(), 3u);
  EXPECT_EQ(daemon_.admin().pins[1].key(), std::string(32, 'b'));
  EXPECT_TRUE(daemon_.admin().pins[1].pinned());
  EXPECT_FALSE(daemon_.admin().pins[2].pinned());
  EXPECT_EQ(Run({"pin", "ffff", "6161"}), 1);
  EXPECT_THAT(out_.str(), HasSubstr("pinned " + Key('a')));
}

TEST_F(AdminCommandTest, VerifyFailsWhereSomethingIsDamaged) {
  admin::v1::VerifyReport report;
  report.set_checked(5);
  report.set_done(true);
  daemon_.admin().reports = {report};
  EXPECT_EQ(Run({"verify"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("checked 5 artifacts"));
  daemon_.admin().reports[0].add_quarantined_keys(std::string(32, 'a'));
  EXPECT_EQ(Run({"verify", "--json"}), 1);
  EXPECT_EQ(Objects().front().at("quarantined").at(0), Key('a'));
}

TEST_F(AdminCommandTest, AVerifyThatStopsEarlyCouldNotRun) { EXPECT_EQ(Run({"verify"}), 2); }

TEST_F(AdminCommandTest, Drains) {
  EXPECT_EQ(Run({"drain"}), 0);
  EXPECT_EQ(daemon_.admin().drains, 1);
  EXPECT_THAT(out_.str(), HasSubstr("draining"));
}

TEST_F(AdminCommandTest, ShowsStats) {
  daemon_.admin().stats.set_state("serving");
  SetMetric("requests", 10);
  SetMetric("compiled", 5);
  EXPECT_EQ(Run({"stats"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\ncompiled\t5\n"));
  EXPECT_EQ(Run({"stats", "--table"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("  compiled             5 (50.0 %)\n"));
  EXPECT_EQ(Run({"stats", "--json"}), 0);
  EXPECT_EQ(Objects().front().at("requests"), 10);
}

TEST_F(AdminCommandTest, StatsHaveAPlaceForEveryNumber) {
  admin::v1::GetStatsResponse& stats = daemon_.admin().stats;
  auto& toolchain = *stats.add_toolchains();
  toolchain.set_name("triton==3.6.0");
  toolchain.set_fingerprint(std::string(32, 'a'));
  toolchain.set_state("ready");
  SetMetric("workers", 3);
  SetMetric("toolchain_queued", 1);
  for (auto& metric : *stats.mutable_metrics()) {
    (*metric.mutable_labels())["fingerprint"] = Hex(std::string(32, 'a'));
  }
  SetMetric("queued", 2);
  (*stats.mutable_metrics()->rbegin()->mutable_labels())["priority"] = "warm";
  SetMetric("queued_bytes", 2048);
  SetMetric("available_memory_bytes", 1024);
  SetMetric("memory_pressure_percent", 0.5);
  SetMetric("held_back", 1);
  SetMetric("compile_cpu_micros", 12'300);
  SetMetric("a_new_one", 7);
  EXPECT_EQ(Run({"stats", "--json"}), 0);
  const Json json = Objects().front();
  EXPECT_EQ(json.at("workers"), 3);
  EXPECT_EQ(json.at("queued"), 2);
  EXPECT_EQ(json.at("queued_by_priority"), (Json{0, 0, 2, 0}));
  EXPECT_EQ(json.at("memory_pressure_percent"), 0.5);
  EXPECT_EQ(json.at("a_new_one"), 7);
  EXPECT_EQ(json.at("toolchains").at(0).at("workers"), 3);
  EXPECT_EQ(json.at("toolchains").at(0).at("queued"), 1);
  EXPECT_FALSE(json.contains("metrics"));
  EXPECT_EQ(Run({"stats", "--table"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("  2 (2 warm), 2.0 KiB\n"));
  EXPECT_THAT(out_.str(), HasSubstr("1.0 KiB available, unknown expected for what runs, pressure "
                                    "0.5 %, 1 compile held back\n"));
  EXPECT_THAT(out_.str(), HasSubstr("  12.3 ms\n"));
  EXPECT_THAT(out_.str(), HasSubstr("  triton==3.6.0  ready, 3 workers, unknown, 1 queued\n"));
  EXPECT_THAT(out_.str(), HasSubstr("Counters\n  a_new_one  7\n"));
}

TEST_F(AdminCommandTest, ToolchainsOfTheSameNameAreToldApart) {
  for (const char* name : {"nvrtc==12.9.86", "nvrtc==12.9.86", "triton==3.6.0"}) {
    auto& toolchain = *daemon_.admin().stats.add_toolchains();
    toolchain.set_name(name);
    toolchain.set_fingerprint(
        std::string(32, static_cast<char>(daemon_.admin().stats.toolchains_size())));
  }
  EXPECT_EQ(Run({"stats", "--table"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\n  nvrtc==12.9.86 010101010101  "));
  EXPECT_THAT(out_.str(), HasSubstr("\n  nvrtc==12.9.86 020202020202  "));
  EXPECT_THAT(out_.str(), HasSubstr("\n  triton==3.6.0                "));
  daemon_.admin().stats.mutable_toolchains(1)->set_state("failed: it does not start");
  EXPECT_EQ(Run({"doctor"}), 1);
  EXPECT_THAT(out_.str(), HasSubstr("bad     toolchain nvrtc==12.9.86 020202020202: failed: it"));
}

TEST_F(AdminCommandTest, RemarksTellToolchainsOfTheSameNameApart) {
  for (const char* version : {"12.9.86", "12.9.86", "13.0.88"}) {
    auto& held = *daemon_.admin().toolchains.add_toolchains();
    held.mutable_toolchain()->set_name("nvrtc");
    held.mutable_toolchain()->set_version(version);
    held.mutable_toolchain()->set_fingerprint(
        std::string(32, static_cast<char>(daemon_.admin().toolchains.toolchains_size())));
    held.add_remarks("not used for hip");
  }
  EXPECT_EQ(Run({"toolchain", "list"}), 0);
  EXPECT_EQ(err_.str(),
            "nvrtc==12.9.86 010101010101: not used for hip\n"
            "nvrtc==12.9.86 020202020202: not used for hip\n"
            "nvrtc==13.0.88: not used for hip\n");
}

TEST_F(AdminCommandTest, AddingAToolchainSaysWhatCompilesFromNowOn) {
  const auto add = [this](const char* version) {
    auto& held = *daemon_.admin().toolchains.add_toolchains();
    v1::Toolchain& toolchain = *held.mutable_toolchain();
    toolchain.set_name("nvrtc");
    toolchain.set_version(version);
    toolchain.set_fingerprint(std::string(32, version[1]));
    toolchain.add_kinds(v1::SOURCE_KIND_CUDA_CXX);
    if (version == std::string("13.0.88")) held.add_default_kinds(v1::SOURCE_KIND_CUDA_CXX);
    EXPECT_EQ(Run({"toolchain", "add", "nvrtc", "--path", "/opt/cuda"}), 0);
  };
  add("13.0.88");
  EXPECT_THAT(err_.str(),
              HasSubstr("added /opt/cuda; it compiles cuda where no --toolchain is named\n"));
  add("12.9.86");
  EXPECT_THAT(err_.str(),
              HasSubstr("added /opt/cuda; where no --toolchain is named, nvrtc==13.0.88 compiles "
                        "cuda, the newest: 'kiln toolchain default nvrtc==12.9.86' chooses"));
}

TEST_F(AdminCommandTest, TheListSaysWhatCompilesWhereNoneIsNamed) {
  const auto add = [this](const char* name, std::vector<v1::SourceKind> kinds,
                          std::vector<v1::SourceKind> default_kinds) {
    auto& held = *daemon_.admin().toolchains.add_toolchains();
    held.mutable_toolchain()->set_name(name);
    held.mutable_toolchain()->set_version("1.2.3");
    for (const v1::SourceKind kind : kinds) held.mutable_toolchain()->add_kinds(kind);
    for (const v1::SourceKind kind : default_kinds) held.add_default_kinds(kind);
  };
  add("triton", {v1::SOURCE_KIND_TTIR, v1::SOURCE_KIND_PTX}, {v1::SOURCE_KIND_TTIR});
  add("nvrtc", {v1::SOURCE_KIND_CUDA_CXX}, {v1::SOURCE_KIND_CUDA_CXX});
  add("ptxas", {v1::SOURCE_KIND_PTX}, {v1::SOURCE_KIND_PTX});
  add("ptxas", {v1::SOURCE_KIND_PTX}, {});
  daemon_.admin().toolchains.mutable_toolchains(2)->mutable_toolchain()->set_is_default(true);
  daemon_.admin().toolchains.set_default_selector("ptxas==1.2.3");
  EXPECT_EQ(Run({"toolchain", "list"}), 0);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("\tttir ptx\t\tdefault of ttir (newest)\t"),
                                HasSubstr("\tcuda\t\tdefault (newest)\t"),
                                HasSubstr("\tptx\t\tdefault\t"), HasSubstr("\tptx\t\t\t")));
  EXPECT_EQ(Run({"toolchain", "list", "--json"}), 0);
  EXPECT_EQ(Objects()[1].at("default_kinds"), Json::array({"cuda"}));
}

TEST_F(AdminCommandTest, RemovingAnAmbiguousToolchainAsksWhich) {
  EXPECT_EQ(Run({"toolchain", "remove", "ptxas"}), 1);
  EXPECT_EQ(err_.str(), "kiln: toolchain remove: say which: ptxas==12.8.93, ptxas==13.0.88\n");
}

TEST_F(AdminCommandTest, ShowsVersions) {
  daemon_.admin().stats.set_version("9.9.9");
  EXPECT_EQ(Run({"version", "--json"}), 0);
  EXPECT_EQ(Objects().front().at("kilnd"), "9.9.9");
  daemon_.Stop();
  EXPECT_EQ(Run({"version", "--json"}), 0);
  EXPECT_TRUE(Objects().front().at("kilnd").is_null());
}

TEST_F(AdminCommandTest, TheDoctorSaysWhatToDo) {
  daemon_.admin().stats.set_state("degraded");
  daemon_.admin().stats.set_state_reason("disk full");
  EXPECT_EQ(Run({"doctor"}), 1);
  EXPECT_THAT(out_.str(), HasSubstr("bad     toolchains: the daemon has no toolchain"));
  EXPECT_THAT(out_.str(), HasSubstr("bad     state: degraded: disk full"));
  EXPECT_THAT(out_.str(), HasSubstr("try: "));
  daemon_.admin().stats.set_state("serving");
  v1::Toolchain& toolchain = *daemon_.kernels().toolchains.add_toolchains();
  toolchain.set_name("triton");
  EXPECT_EQ(Run({"doctor"}), 1);
  EXPECT_THAT(out_.str(), HasSubstr("bad     toolchains: the default toolchain"));
  toolchain.set_is_default(true);
  EXPECT_EQ(Run({"doctor", "--json"}), 0) << out_.str();
}

TEST_F(AdminCommandTest, TheDoctorSaysThatBinariesWereWrong) {
  Run({"doctor"});
  EXPECT_THAT(out_.str(), Not(HasSubstr("integrity")));
  SetMetric("audits_differed", 2);
  Run({"doctor"});
  EXPECT_THAT(out_.str(), HasSubstr("warning integrity: 2 stored binaries were not what"));
}

TEST_F(AdminCommandTest, TheDoctorSaysHowWorkersAreJailed) {
  admin::v1::GetStatsResponse& stats = daemon_.admin().stats;
  Run({"doctor"});
  EXPECT_THAT(out_.str(), Not(HasSubstr("jail")));  // a daemon that does not know
  stats.set_jail("on");
  Run({"doctor"});
  EXPECT_THAT(out_.str(), HasSubstr("ok      jail: "));
  stats.add_jail_problems("this kernel has no Landlock");
  Run({"doctor"});
  EXPECT_THAT(out_.str(), HasSubstr("warning jail: this kernel has no Landlock"));
  EXPECT_EQ(Run({"stats", "--table"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("on, but this kernel has no Landlock"));
  stats.set_jail("required");
  Run({"doctor"});
  EXPECT_THAT(out_.str(), HasSubstr("bad     jail: nothing is compiled: this kernel"));
  stats.set_jail("off");
  Run({"doctor"});
  EXPECT_THAT(out_.str(), HasSubstr("bad     jail: this kernel has no Landlock"));
}

TEST_F(CommandLineTest, CommandsWithoutADaemonExitWith2) {
  const std::string requests = Write("r.jsonl", "{\"source\": \"m\"}\n");
  daemon_.Stop();
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"warm", requests},
                                                    {"compile", "--requests", requests},
                                                    {"ls"},
                                                    {"stats"},
                                                    {"get", Digest::Of("x").Hex()},
                                                    {"pin", "abcd"},
                                                    {"evict", "--all"}}) {
    EXPECT_EQ(Run(arguments), 2) << arguments.front();
    EXPECT_THAT(err_.str(), HasSubstr("kiln: cannot reach the daemon: "));
    EXPECT_THAT(err_.str(), HasSubstr("\n  try: start one"));
  }
  EXPECT_EQ(Run({"doctor"}), 1);
}

TEST_F(CommandLineTest, MissingDaemonIsNamedByItsSocket) {
  const std::string socket = files_.File("nope.sock");
  for (const char* command : {"stats", "doctor"}) {
    EXPECT_NE(RunCommandLine({"--socket", socket, command}, out_, err_, {}), 0);
  }
  EXPECT_THAT(err_.str(), HasSubstr("there is no socket at " + socket + "\n"));
}

TEST_F(CommandLineTest, ADirectoryIsRefusedAsASocket) {
  for (const char* command : {"stats", "ls"}) {
    EXPECT_NE(RunCommandLine({"--socket", files_.path(), command}, out_, err_, {}), 0);
    EXPECT_THAT(err_.str(), HasSubstr(files_.path() + " is a directory, not a daemon's socket\n"));
    err_.str("");
  }
}

TEST_F(CommandLineTest, AStalePidIsNotTakenForAStartingDaemon) {
  daemon_.Stop();
  // A process, but none of kilnd's.
  WriteFileOrDie(daemon_.root() + "/run/pid", "1");
  EXPECT_EQ(Run({"stats"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("try: start one"));
}

TEST_F(CommandLineTest, WrongUsageIs2) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{},
        {"nonsense"},
        {"compile"},
        {"compile", "--nonsense"},
        {"compile", "x.ttir"},
        {"compile", "x.ttir", "--target", "nonsense"},
        {"compile", "x.ttir", "--requests", "y"},
        {"compile", "x", "--target", "a:1", "--kind", "k"},
        {"compile", "x", "--target", "a:1", "--option", "o"},
        {"compile", "--requests", "y", "--option", "a=1"},
        {"ls", "--timeout", "-1"},
        {"get"}}) {
    EXPECT_EQ(Run(arguments), 2);
    EXPECT_NE(err_.str(), "");
  }
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_EQ(Run({"compile", "--help"}), 0);
}

TEST_F(CommandLineTest, WrongUsageSaysWhatIsWrong) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "kiln: usage: A subcommand is required\n  try: 'kiln --help'"},
      {{"--stage", "stats"}, "kiln: stats: '--stage' is not known here\n"},
      {{"stast"},
       "kiln: usage: 'stast' is not known here; did you mean stats?\n  try: 'kiln --help'"},
      {{"stast", "--help"}, "kiln: usage: 'stast' is not known here"},
      {{"help", "stast"}, "kiln: usage: 'stast' is not known here"},
      {{"compile", "x", "--targt", "cuda:90"},
       "kiln: compile: '--targt' is not known here; did you mean --target?\n"
       "  try: 'kiln compile --help'\n"},
      {{"ls", "--limt=3"}, "did you mean --limit?\n"},
      {{"ls", "--jsn"}, "'--jsn' is not known here; did you mean --json?\n"},
      {{"stats", "more"}, "kiln: stats: 'more' is not known here\n"},
      {{"get"}, "kiln: get: KEY is required\n  try: 'kiln get --help'\n"},
      {{"ls", "--limit", "x"}, "kiln: ls: --limit: 'x' is not a whole number from 0 to"},
      {{"ls", "--limit", "-1"}, "kiln: ls: --limit: '-1' is not a whole number from 0 to"},
      {{"ls", "--timeout", "0"},
       ": --timeout: '0' is no time above 0, as 30 (seconds), 30s or 10m\n"},
      {{"ls", "--timeout", "abc"}, ": --timeout: 'abc' is no time"},
      {{"ls", "--timeout", "inf"}, ": --timeout: 'inf' is no time"},
      {{"ls", "--server-uid", "x"},
       ": --server-uid: 'x' is not a whole number from 0 to 4294967295\n"},
      {{"ls", "--server-uid", "4294967296"}, ": --server-uid: '4294967296' is not"},
  };
  for (const auto& [arguments, words] : cases) {
    EXPECT_EQ(Run(arguments), 2);
    EXPECT_THAT(err_.str(), HasSubstr(words));
  }
}

TEST_F(CommandLineTest, UnusableSourceIsRefusedBeforeAnythingRuns) {
  for (const std::string& path : {files_.path(), std::string("/dev/null"), files_.File("none")}) {
    EXPECT_EQ(Run({"compile", path, "--target", "cuda:90"}), 2) << path;
  }
  const std::string source = Write("k.ttir", "m");
  EXPECT_EQ(Run({"compile", source, "--requests", source, "--target", "cuda:90"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("not both"));
  EXPECT_EQ(Run({"compile", "--requests", source}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("k.ttir is named as a source"));
  EXPECT_EQ(Run({"warm", source}), 2);
  EXPECT_EQ(daemon_.kernels().streams, 0);
}

TEST_F(CommandLineTest, ALineThatIsNoJsonIsNamedOnce) {
  EXPECT_EQ(Run({"compile", "--requests", Write("r.jsonl", "\nnonsense\n")}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("kiln: line-2: this is not JSON: column 2: syntax error"));
}

TEST_F(CommandLineTest, TimeThatIsOverIsAFailureOfEveryFile) {
  const auto gate = std::make_shared<Gate>();
  daemon_.kernels().on_stream = [gate](FakeKernelService::Stream*) {
    gate->Await();
    return grpc::Status::OK;
  };
  const std::string source = Write("k.ttir", "m");
  const std::string other = Write("l.ttir", "n");
  EXPECT_EQ(Run({"compile", source, other, "--target", "cuda:90", "--timeout", "0.05"}), 1);
  EXPECT_THAT(out_.str(), HasSubstr("k\tcuda:90\tfailed\t-\t-\tDEADLINE_EXCEEDED\t-\n"));
  EXPECT_THAT(out_.str(), HasSubstr("l\tcuda:90\tfailed\t-\t-\tDEADLINE_EXCEEDED\t-\n"));
  EXPECT_THAT(err_.str(), HasSubstr("0 compiled, 2 failed"));
  EXPECT_THAT(err_.str(), Not(HasSubstr("stopped early")));  // each file has said why
  // Over before anything is sent.
  EXPECT_EQ(Run({"compile", source, other, "--target", "cuda:90", "--timeout", "0.0000001"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("0 compiled, 2 failed"));
  gate->Open();
}

TEST_F(CommandLineTest, AStageWithoutAName) {
  const std::string source = Write("k.ttir", "m");
  EXPECT_EQ(Run({"compile", source, "--target", "cuda:90", "--emit", ""}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("a stage has no name"));
}

TEST_F(CommandLineTest, AnOptionWithoutItsValue) {
  EXPECT_EQ(RunCommandLine({"stats", "--root"}, out_, err_, {}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--root: 1 required DIR missing\n"));
}

// A script whose variable is not set gives an empty path.
TEST_F(CommandLineTest, AnEmptyPathIsRefused) {
  EXPECT_EQ(RunCommandLine({"--root", "", "stats"}, out_, err_, {}), 2);
  EXPECT_THAT(err_.str(), HasSubstr(": --root: is empty; name a path, or leave it out\n"));
  const std::string key = Digest::Of("x").Hex();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"stats", "--socket", ""},
        {"compile", "--requests", ""},
        {"compile", "k.ttir", "--target", "cuda:90", "-o", ""},
        {"compile", "k.ttir", "--target", "cuda:90", "--ptxas", ""},
        {"compile", "", "--target", "cuda:90"},
        {"warm", ""},
        {"get", key, "-o", ""},
        {"reproduce", key, "-o", ""},
        {"toolchain", "add", "triton", "--path", ""},
        {"toolchain", "add", "triton==3.6.0", "--into", ""}}) {
    EXPECT_EQ(Run(arguments), 2) << arguments.front();
    EXPECT_THAT(err_.str(), HasSubstr("is empty; name a path")) << arguments.front();
  }
}

TEST_F(CommandLineTest, AnOptionThatIsGivenTwice) {
  EXPECT_EQ(RunCommandLine({"compile", "--requests", "a", "--requests", "b"}, out_, err_, {}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--requests: At Most 1 required but received 2\n"));
}

TEST_F(CommandLineTest, AnOptionThatIsCutShort) {
  EXPECT_EQ(RunCommandLine({"compile", "--opt", "a=b"}, out_, err_, {}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("'--opt' is not known here; did you mean --option?"));
}

TEST_F(CommandLineTest, AFileOfRequestsIsRefusedAsASource) {
  const std::string file = Write("requests.jsonl", "{}\n");
  EXPECT_EQ(Run({"compile", file, "--target", "cuda:90"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("write --requests " + file));
}

TEST_F(CommandLineTest, HelpAndVersionAsPeopleAskForThem) {
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(out_.str().substr(0, 5), "kiln ");
  EXPECT_EQ(Run({"help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("inspect"));
  EXPECT_EQ(Run({"help", "compile"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("--emit"));
  EXPECT_THAT(out_.str(), HasSubstr("Options of every command"));
}

}  // namespace
}  // namespace kiln::cli
