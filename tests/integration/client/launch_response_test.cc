// What libkiln returns is launched as it is. The daemon is real, the GPU is the stand-in's.
#include <gtest/gtest.h>

#include "client/launch/kiln_launch.h"
#include "client/rpc/client.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/simple_kernel.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

class LaunchResponseTest : public ::testing::Test {
 protected:
  LaunchResponseTest() {
    daemon_.Start();
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.driver_path = fake_.path().c_str();
    EXPECT_EQ(kiln_launch_open(&options, &runtime_), KILN_LAUNCH_OK) << kiln_launch_error();
  }
  ~LaunchResponseTest() override { kiln_launch_close(runtime_); }

  v1::CompileResponse Compile(const v1::CompileRequest& request) {
    auto answer = daemon_.Connect()->Compile(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    const v1::KernelMetadata& metadata = answer->metadata();
    const auto parameters = static_cast<size_t>(metadata.parameters_size());
    fake_->Define(metadata.name(), {.parameter_bytes = std::vector<size_t>(
                                        parameters + metadata.hidden_pointers(), 8)});
    return *std::move(answer);
  }

  TemporaryDaemon daemon_;
  FakeCudaLibrary fake_;
  kiln_launch_runtime* runtime_ = nullptr;
};

TEST_F(LaunchResponseTest, OpensAKernelFromACompileResponse) {
  const v1::CompileResponse response = Compile(SimpleKernel(1));
  const std::string bytes = response.SerializeAsString();
  kiln_launch_kernel* kernel = nullptr;
  kiln_launch_kernel* same = nullptr;
  ASSERT_EQ(kiln_launch_kernel_open_response(runtime_, response, 0, &kernel), KILN_LAUNCH_OK)
      << kiln_launch_error();
  ASSERT_EQ(kiln_launch_kernel_open_response(runtime_, bytes.data(), bytes.size(), 0, &same),
            KILN_LAUNCH_OK)
      << kiln_launch_error();
  kiln_launch_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(kiln_launch_get_stats(runtime_, &stats), KILN_LAUNCH_OK);
  EXPECT_EQ(stats.kernels_open, 1u) << "both are the kernel of one artifact";

  const std::vector<uint64_t> values(static_cast<size_t>(response.metadata().parameters_size()));
  std::vector<const void*> arguments;
  for (const uint64_t& value : values) arguments.push_back(&value);
  kiln_launch_config config{};
  config.size = sizeof config;
  config.grid[0] = config.grid[1] = config.grid[2] = 1;
  ASSERT_EQ(kiln_launch_enqueue(kernel, &config, arguments.data(),
                                static_cast<uint32_t>(arguments.size())),
            KILN_LAUNCH_OK)
      << kiln_launch_error();
  EXPECT_EQ(fake_->launches().size(), 1u);
  kiln_launch_kernel_close(kernel);
  kiln_launch_kernel_close(same);
}

TEST_F(LaunchResponseTest, AnAnswerWithoutTheBinaryIsRefused) {
  v1::CompileRequest request = SimpleKernel(1);
  request.add_stages("ptx");
  kiln_launch_kernel* kernel = nullptr;
  EXPECT_EQ(kiln_launch_kernel_open_response(runtime_, Compile(request), 0, &kernel),
            KILN_LAUNCH_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_launch_error(), "the response has no cubin, hsaco or spv: ask for that stage");
  EXPECT_EQ(kernel, nullptr);
}

}  // namespace
}  // namespace kiln
