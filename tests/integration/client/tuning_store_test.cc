// Times of tunings, kept by a real daemon. The GPU is the stand-in's.
#include "client/rpc/tuning_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "client/launch/driver/cuda_driver.h"
#include "client/launch/tuner.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

using ::testing::SizeIs;

// What one process has: a driver, a client, candidates of its own.
class Process {
 public:
  explicit Process(const TemporaryDaemon& daemon,
                   std::chrono::milliseconds budget = std::chrono::seconds(60))
      : launcher_(*launch::CudaDriver::Open(fake_.path())),
        tuner_(launcher_),
        client_(daemon.Connect()),
        store_(*client_, budget) {
    fake_->MakeContext();
  }
  ~Process() { fake_->SetCurrent(nullptr); }

  // Candidates take as many milliseconds as they say. How many were timed.
  size_t Tune(const std::vector<int>& milliseconds) {
    std::vector<launch::Candidate> candidates;
    for (const int ms : milliseconds) candidates.push_back(Make(ms));
    launch::TuningRequest request;
    request.problem = "n=1";
    request.timing.flush_bytes = 4096;
    request.store = {sizeof request.store, 0, TuningStore::Find, TuningStore::Put, &store_};
    std::vector<launch::CandidateResult> results;
    const auto fastest = tuner_.Tune(candidates, request, results);
    EXPECT_TRUE(fastest.ok()) << fastest.status().message();
    const auto expected = std::min_element(milliseconds.begin(), milliseconds.end());
    EXPECT_EQ(*fastest, static_cast<size_t>(expected - milliseconds.begin()));
    size_t timed = 0;
    for (const auto& result : results) timed += result.is_stored ? 0 : 1;
    return timed;
  }
  const TuningStore& store() const { return store_; }

 private:
  launch::Candidate Make(int ms) {
    const std::string name = "takes_" + std::to_string(ms);
    fake_->Define(name, {.parameter_bytes = {8, 8}, .milliseconds = static_cast<float>(ms)});
    launch::Candidate candidate;
    candidate.kernel = *launcher_.Open(MadeArtifact(MadeDocument(name, {}), name), -1);
    for (uint32_t& length : candidate.call.grid) length = 1;
    return candidate;
  }

  FakeCudaLibrary fake_;
  launch::Launcher launcher_;
  launch::Tuner tuner_;
  std::unique_ptr<Client> client_;
  TuningStore store_;
};

TEST(TuningStoreTest, LaterProcessesTimeNothingAndADaemonThatIsGoneFailsNone) {
  TemporaryDaemon daemon({"--set", "toolchain.directories=[]"});
  daemon.Start();
  Process first(daemon);
  EXPECT_EQ(first.Tune({30, 10, 20}), 3u);
  EXPECT_TRUE(first.store().status().ok()) << first.store().status();

  Process second(daemon);
  EXPECT_EQ(second.Tune({30, 10, 20}), 0u);
  EXPECT_EQ(second.Tune({30, 5, 10, 20}), 1u) << "only the new one";

  Process third(daemon, std::chrono::milliseconds(50));
  daemon.Kill();
  EXPECT_EQ(third.Tune({30, 10}), 2u);
  EXPECT_FALSE(third.store().status().ok());
}

}  // namespace
}  // namespace kiln
