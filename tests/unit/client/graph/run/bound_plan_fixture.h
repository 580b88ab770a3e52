// A bound plan over the CUDA driver's stand-in.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/graph/run/bound_plan.h"
#include "tests/testing/graph/segment_maker.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace kiln::graph {

// y = exp(sqrt(relu(x))), z = exp(softmax(y)): kernels 0 to 2, a softmax, kernel 3.
inline Segment Chain() {
  SegmentMaker maker;
  const Size n = maker.Symbol("n", 0, 1000, 64);
  const int x = maker.Input({n, 32});
  const int y = maker.Add("Exp", {maker.Add("Sqrt", {maker.Add("Relu", {x})})});
  maker.Output(maker.Add("Tanh", {maker.Add("Softmax", {y})}));
  return maker.segment();
}

// What the daemon would answer, with the kernel's name and `content` for its code. One symbol.
inline kiln_launch_artifact* MadeArtifact(FakeCudaLibrary& fake, const PlannedKernel& kernel,
                                          const std::string& content = "", int threads_max = 1024) {
  std::vector<std::pair<std::string, std::string>> parameters;
  for (const int value : kernel.buffers) parameters.emplace_back(std::to_string(value), "*fp32");
  parameters.emplace_back("n", "i64");
  std::vector<size_t> bytes_of(parameters.size(), 8);
  if (!kernel.kernel.stages.empty()) {
    parameters.insert(parameters.end(), {{"state", "*u64"}, {"ticket", "u32"}, {"stage", "u32"}});
    bytes_of.insert(bytes_of.end(), {8, 4, 4});
  }
  fake->Define(kernel.kernel.entry, {.parameter_bytes = bytes_of, .threads_max = threads_max});
  const std::string json = MadeDocument(
      kernel.kernel.entry, parameters,
      R"({"hidden_pointers": 0, "num_warps": )" + std::to_string(kernel.num_warps) + "}");
  const std::string binary = MadeElf(kernel.kernel.entry + content);
  const launch::Sha256Digest digest = launch::Sha256(binary);
  kiln_launch_bytes bytes{};
  bytes.size = sizeof bytes;
  bytes.json = json.data();
  bytes.json_bytes = json.size();
  bytes.binary = binary.data();
  bytes.binary_bytes = binary.size();
  bytes.digest = digest.data();
  kiln_launch_artifact* artifact = nullptr;
  EXPECT_EQ(kiln_launch_artifact_open_bytes(&bytes, &artifact), KILN_LAUNCH_OK)
      << kiln_launch_error();
  return artifact;
}

// A kernel for each operation, but for normalizations, which the engine keeps.
inline KernelPlan UnfusedPlanOf(const Segment& segment,
                                GridBarriers barriers = GridBarriers::kByScore) {
  PlanConfig config{.fuses = false, .keeps_small_sections = true, .barriers = barriers};
  config.off = {SectionType::kNormalization};
  config.model.launch_bytes = 0;  // every split pays
  auto plan = KernelPlan::Make(segment, std::move(config),
                               {.target = "cuda:90", .forced = Compiler::kCuda});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

class BoundPlanTest : public testing::Test {
 protected:
  explicit BoundPlanTest(const Segment& segment = Chain(),
                         GridBarriers barriers = GridBarriers::kByScore)
      : plan_(UnfusedPlanOf(segment, barriers)) {
    fake_->MakeContext();
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.driver_path = fake_.path().c_str();
    EXPECT_EQ(kiln_launch_open(&options, &runtime_), KILN_LAUNCH_OK) << kiln_launch_error();
    Bind();
  }
  void Bind() {
    auto bound = BoundPlan::Make(plan_, runtime_, 0);
    EXPECT_TRUE(bound.ok()) << bound.status();
    bound_ = *std::move(bound);
    auto layout = MemoryLayout::Make(plan_);
    buffers_.clear();
    names_.clear();
    for (const PlanBuffer& buffer : layout->buffers()) {
      buffers_.push_back(buffer.is_external ? 0x10'0000 * (buffers_.size() + 1) : 0);
      names_.push_back(plan_.segment().values[static_cast<size_t>(buffer.value)].name);
    }
  }
  ~BoundPlanTest() override {
    bound_.reset();
    kiln_launch_close(runtime_);
    fake_->SetCurrent(nullptr);
  }

  void SetArtifact(size_t number) {
    kiln_launch_artifact* const artifact =
        MadeArtifact(fake_, plan_.kernels()[number], /*content=*/"", threads_max_);
    const absl::Status status = bound_->SetArtifact(number, artifact);
    kiln_launch_artifact_close(artifact);
    ASSERT_TRUE(status.ok()) << status;
  }
  void Load() {
    for (size_t number = 0; number < plan_.kernels().size(); ++number) {
      if (plan_.StepOf(static_cast<int>(number)) >= 0) SetArtifact(number);
    }
    const absl::Status status = bound_->Prepare();
    ASSERT_TRUE(status.ok()) << status;
  }
  Execution Whole() const {
    return {.buffers = buffers_,
            .symbols = symbols_,
            .workspace = 0x900'0000,
            .workspace_bytes = 1 << 20,
            .stream = nullptr};
  }
  std::string Refusal(const Execution& execution) {
    size_t next = 99;
    const absl::Status status = bound_->Execute(execution, next);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(next, 99u);
    EXPECT_TRUE(fake_->launches().empty()) << "everything is checked before the first launch";
    return std::string(status.message());
  }
  size_t BufferNumber(const std::string& name) const {
    return static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
  }
  static uint64_t Word(const std::string& bytes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    return word;
  }

  FakeCudaLibrary fake_;
  kiln_launch_runtime* runtime_ = nullptr;
  KernelPlan plan_;
  std::unique_ptr<BoundPlan> bound_;
  std::vector<uint64_t> buffers_;
  std::vector<std::string> names_;
  std::vector<int64_t> symbols_ = {10};
  int threads_max_ = 1024;  // of a block of any kernel
};

}  // namespace kiln::graph
