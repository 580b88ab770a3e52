// Kernels that no Triton made: CUDA C++ and PTX, where nothing says which words are pointers.
#include "tests/gpu/launch/fixture.h"

namespace kiln::gpu {
namespace {

// One kernel out of two sources (plain/), and how each calls its parameters.
struct Source {
  const char* name;
  const char* out;
  const char* scale;
};

// out = 2 × in + bias + weights. The weights' address lies in memory, where the library does not
// look.
class PlainKernelTest : public GpuTest, public testing::WithParamInterface<Source> {
 protected:
  static constexpr int32_t kCount = 10'000;
  static constexpr uint32_t kBlock = 128;
  struct Scale {
    DevicePointer bias;
    float factor;
    int32_t count;
  };

  PlainKernelTest()
      : in_(kCount),
        bias_(kCount),
        weights_(kCount),
        out_(kCount),
        table_(std::vector<DevicePointer>{weights_.address()}),
        scale_{bias_.address(), 2, kCount},
        kernel_(Open(GetParam().name)) {
    WriteInputs();
  }

  void WriteInputs() {
    const std::vector<float> in = Random(kCount), bias = Random(kCount), weights = Random(kCount);
    in_.Write(in);
    bias_.Write(bias);
    weights_.Write(weights);
    expected_.resize(kCount);
    for (size_t i = 0; i < kCount; ++i) expected_[i] = 2 * in[i] + bias[i] + weights[i];
  }
  kiln_launch_code EnqueueScaledAdd() {
    kiln_launch_config config = Config((kCount + kBlock - 1) / kBlock, 1, stream_.get());
    config.block[0] = kBlock;
    config.block[1] = config.block[2] = 1;
    config.dynamic_shared_bytes = dynamic_shared_bytes_;
    const uint32_t bytes[] = {8, 8, sizeof scale_, 8};
    config.argument_bytes = bytes;
    return Enqueue(kernel_, config, {out_.argument(), in_.argument(), &scale_, table_.argument()});
  }
  bool OutIsRight() const { return out_.Read() == expected_; }
  void ClearOut() { GPU(cuMemsetD8_v2(out_.address(), 0xff, out_.bytes())); }

  // "decode", with the buffer that no argument leads to.
  Handle Capture() {
    BeginCapture(stream_, CaptureMode::kGlobal);
    EXPECT_LAUNCH_OK(kiln_launch_graph_set_name(runtime_, stream_.get(), "decode"));
    EXPECT_LAUNCH_OK(kiln_launch_graph_add_buffer(runtime_, stream_.get(), weights_.address(),
                                                  weights_.bytes(), "weights"));
    EXPECT_LAUNCH_OK(EnqueueScaledAdd());
    return EndCapture(stream_);
  }
  void ExpectInUse(DevicePointer address, const std::string& name) {
    EXPECT_EQ(kiln_launch_check_free(runtime_, address, 4), KILN_LAUNCH_FAILED_PRECONDITION)
        << name;
    const std::string error = kiln_launch_error();
    std::printf("  %s\n", error.c_str());
    EXPECT_NE(error.find(name), std::string::npos);
    EXPECT_NE(error.find("decode"), std::string::npos);
  }

  OwnStream stream_;
  Buffer<float> in_;
  Buffer<float> bias_;
  Buffer<float> weights_;
  Buffer<float> out_;
  Buffer<DevicePointer> table_;
  Scale scale_;
  std::vector<float> expected_;
  uint32_t dynamic_shared_bytes_ = 0;
  kiln_launch_kernel* kernel_;
};

TEST_P(PlainKernelTest, ComputesWhatItSays) {
  ASSERT_LAUNCH_OK(EnqueueScaledAdd());
  EXPECT_TRUE(OutIsRight());
}

TEST_P(PlainKernelTest, TakesSharedMemoryFromTheLaunch) {
  dynamic_shared_bytes_ = static_cast<uint32_t>(Device().shared_bytes_max) - 1024;
  ASSERT_LAUNCH_OK(EnqueueScaledAdd());
  EXPECT_TRUE(OutIsRight());
}

TEST_P(PlainKernelTest, ReplayUsesWhatTheBuffersHoldThen) {
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel_));
  Handle captured = Capture();
  ASSERT_NE(captured, nullptr) << "something ended the capture";
  const Graph graph(captured);
  for (int i = 0; i < 3; ++i) {
    WriteInputs();
    ClearOut();
    graph.Run(stream_);
    EXPECT_TRUE(OutIsRight());
  }
}

TEST_P(PlainKernelTest, FreeingABufferOfALiveGraphIsAnErrorWithAName) {
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel_));
  Handle captured = Capture();
  ASSERT_NE(captured, nullptr) << "something ended the capture";
  {
    const Graph graph(captured);
    ExpectInUse(out_.address(),
                std::string("argument ") + GetParam().out + " of kernel scaled_add");
    ExpectInUse(bias_.address(), std::string("argument ") + GetParam().scale + " of kernel");
    ExpectInUse(weights_.address() + weights_.bytes() / 2, "weights");
    graph.Run(stream_);
    EXPECT_TRUE(OutIsRight()) << "nothing was freed";
  }
  EXPECT_TRUE(GraphsAreGone());
  for (const DevicePointer address : {out_.address(), bias_.address(), weights_.address()}) {
    EXPECT_LAUNCH_OK(kiln_launch_check_free(runtime_, address, 4));
  }
}

INSTANTIATE_TEST_SUITE_P(Plain, PlainKernelTest,
                         testing::Values(Source{"scaled_add_cu", "scaled_add_param_0",
                                                "scaled_add_param_2"},
                                         Source{"scaled_add_ptx", "out", "scale"}),
                         [](const auto& source) { return std::string(source.param.name); });

}  // namespace
}  // namespace kiln::gpu
