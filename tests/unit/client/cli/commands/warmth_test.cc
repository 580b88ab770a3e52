#include "client/cli/commands/warmth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cli/command_line.h"
#include "client/cli/output/json.h"
#include "tests/testing/temp_directory.h"
#include "tests/unit/client/fake_daemon.h"

namespace kiln::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Says when what is written has a text.
class WatchedBuffer : public std::stringbuf {
 public:
  explicit WatchedBuffer(std::string awaited) : awaited_(std::move(awaited)) {}

  // False where it takes too long.
  bool Await() {
    return seen_.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  }

 protected:
  int sync() override {
    const bool is_new = !is_seen_ && str().find(awaited_) != std::string::npos;
    if (is_new) seen_.set_value();
    is_seen_ = is_seen_ || is_new;
    return 0;
  }

 private:
  const std::string awaited_;
  bool is_seen_ = false;
  std::promise<void> seen_;
};

// `kiln warm` and `kiln wait` of the kernels a, b, c and d.
class WarmthTest : public testing::Test {
 protected:
  WarmthTest() {
    std::string lines;
    for (const char* name : {"a", "b", "c", "d"}) {
      lines += Dump(Json{{"name", name}, {"source", name}, {"target", "cuda:90"}}) + "\n";
    }
    WriteFileOrDie(path_, lines);
  }

  using Answer = std::function<void(const std::string& source, v1::CompileStreamResponse&)>;
  // Sets a code where there is no artifact.
  void OnRequest(Answer answer) {
    daemon_.kernels().on_stream = [answer](FakeKernelService::Stream* stream) {
      v1::CompileStreamRequest request;
      while (stream->Read(&request)) {
        v1::CompileStreamResponse response;
        response.set_id(request.id());
        answer(request.request().source().text(), response);
        if (response.code() == 0) *response.mutable_response() = AnswerTo(request.request());
        stream->Write(response);
      }
      return grpc::Status::OK;
    };
  }

  int Run(std::vector<std::string> arguments, std::ostream& out, std::ostream& err) {
    arguments.insert(arguments.end(), {path_, "--root", daemon_.root()});
    return RunCommandLine(std::move(arguments), out, err,
                          {.progress_interval = std::chrono::milliseconds(1)});
  }
  std::vector<Json> Objects() const {
    std::vector<Json> objects;
    std::istringstream lines(out_.str());
    for (std::string line; std::getline(lines, line);) objects.push_back(*ParseJson(line));
    return objects;
  }

  FakeDaemon daemon_;
  const TempDirectory files_;
  const std::string path_ = files_.File("requests.jsonl");
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(WarmthTest, AWarmSaysWhatItWaitsForWhileNothingIsAnswered) {
  WatchedBuffer buffer("waiting for c\n");
  std::ostream err(&buffer);
  OnRequest([&](const std::string& source, v1::CompileStreamResponse&) {
    if (source == "c") {
      EXPECT_TRUE(buffer.Await());
    }
  });
  EXPECT_EQ(Run({"warm"}, out_, err), 0);
  EXPECT_TRUE(buffer.str().find("2/4") < buffer.str().find("waiting for c\n"));
}

TEST_F(WarmthTest, EventsOfAWarmSayWhatItWaitsFor) {
  WatchedBuffer buffer(R"("waiting_for":"c")");
  std::ostream out(&buffer);
  OnRequest([&](const std::string& source, v1::CompileStreamResponse&) {
    if (source == "c") {
      EXPECT_TRUE(buffer.Await());
    }
  });
  EXPECT_EQ(Run({"warm", "--json"}, out, err_), 0);
  EXPECT_THAT(buffer.str(), HasSubstr(R"({"progress":{"done":2,"total":4,"failed":0,)"));
  EXPECT_THAT(buffer.str(), HasSubstr(R"({"summary":)"));
}

TEST_F(WarmthTest, AWaitTakesNoFlagThatSaysHowToCompile) {
  for (const char* flag : {"--cache", "--priority", "--job"}) {
    EXPECT_EQ(Run({"wait", flag, "use"}, out_, err_), 2);
    EXPECT_THAT(err_.str(), HasSubstr(std::string("'") + flag + "' is not known here"));
    err_.str("");
  }
  EXPECT_EQ(Run({"wait", "--help"}, out_, err_), 0);
  EXPECT_THAT(out_.str(), testing::AllOf(HasSubstr("--timeout is over"), HasSubstr("--target"),
                                         HasSubstr("--toolchain"), HasSubstr("--ptxas")));
}

TEST_F(WarmthTest, AWaitRefusesWhatCanBeReadOnce) {
  const std::string pipe = files_.File("pipe");
  const std::string link = files_.File("link");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(::symlink(pipe.c_str(), link.c_str()), 0);
  for (const std::string& file : {std::string("-"), std::string("/dev/null"), pipe, link}) {
    EXPECT_EQ(Run({"wait", file}, out_, err_), 2);
    EXPECT_THAT(err_.str(), HasSubstr("kiln: wait: name a file: it is read several times\n"));
    err_.str("");
  }
}

// It is told nothing the first time, and that one is missing the second.
TEST_F(WarmthTest, EventsOfAWaitSayWhatItWaitsForAndWhy) {
  OnRequest([&](const std::string& source, v1::CompileStreamResponse& response) {
    const int asked = daemon_.kernels().streams;
    if (asked == 1) response.set_code(8);
    if (asked == 2 && source == "d") response.set_code(5);
    if (response.code() != 0) response.set_message("not now");
  });
  EXPECT_EQ(Run({"wait", "--json"}, out_, err_), 0) << err_.str();
  const std::vector<Json> objects = Objects();
  const auto has = [&](uint64_t done, const Json& total, const Json& waiting_for,
                       const Json& note) {
    return std::any_of(objects.begin(), objects.end(), [&](const Json& object) {
      if (!object.contains("progress")) return false;
      const Json& event = object.at("progress");
      return event.at("done") == done && event.at("total") == total &&
             event.at("waiting_for") == waiting_for && event.at("note") == note;
    });
  };
  EXPECT_TRUE(has(0, {}, {}, "not now")) << out_.str();
  EXPECT_TRUE(has(3, 4, "d for cuda:90", {})) << out_.str();
  EXPECT_EQ(objects.back().at("state"), "complete");
}

// The manifest knows which Triton it was recorded with.
TEST_F(WarmthTest, AToolchainThatIsAbsentIsNamedWithTheWayToAddIt) {
  const std::string fingerprint(64, 'a');
  const std::string origin = Dump(Json{{"manifest", {{"versions", {{"triton", "3.6.0"}}}}}});
  const Json request = {{"name", "a"},
                        {"source", "a"},
                        {"kind", "ttir"},
                        {"target", "cuda:90"},
                        {"toolchain", fingerprint}};
  WriteFileOrDie(path_, origin + "\n" + Dump(request) + "\n");
  v1::Toolchain& there = *daemon_.kernels().toolchains.add_toolchains();
  there.set_name("triton");
  there.set_version("3.7.1");
  there.set_fingerprint("another");
  OnRequest([](const std::string&, v1::CompileStreamResponse& response) {
    response.set_code(9);
    response.set_message("no toolchain here is that");
  });
  const std::string words =
      "recorded with Triton 3.6.0, which the daemon does not have; "
      "'kiln toolchain add triton==3.6.0' installs the one of PyPI: "
      "no toolchain here is that";
  EXPECT_EQ(Run({"warm"}, out_, err_), 1);
  EXPECT_THAT(err_.str(), HasSubstr(words));
  EXPECT_EQ(Run({"warm", "--status"}, out_, err_), 1);
  EXPECT_EQ(out_.str(), "partial: 0 of 1 kernel stored\n  missing: a for cuda:90: " + words + "\n");

  there.set_version("3.6.0");
  err_.str("");
  EXPECT_EQ(Run({"warm"}, out_, err_), 1);
  EXPECT_THAT(err_.str(), HasSubstr("recorded with another build of Triton 3.6.0"));
  EXPECT_THAT(err_.str(), HasSubstr("'kiln toolchain add triton --path DIR'"));
  // It was not recorded with what the caller names.
  err_.str("");
  EXPECT_EQ(Run({"warm", "--toolchain", std::string(64, 'b')}, out_, err_), 1);
  EXPECT_THAT(err_.str(), Not(HasSubstr("recorded")));
}

TEST_F(WarmthTest, AWaitGoesOnWhenTheToolchainIsAdded) {
  OnRequest([&](const std::string&, v1::CompileStreamResponse& response) {
    if (daemon_.kernels().streams > 1) return;
    response.set_code(9);
    response.set_message("no toolchain here is that");
  });
  EXPECT_EQ(Run({"wait"}, out_, err_), 0) << err_.str();
  EXPECT_EQ(out_.str(), "complete: 4 of 4 kernels stored\n");
}

}  // namespace
}  // namespace kiln::cli
