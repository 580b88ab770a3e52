// The example kernels' results against sums done here in double precision.
#include <atomic>
#include <cmath>
#include <thread>

#include "tests/gpu/launch/fixture.h"

namespace kiln::gpu {
namespace {

class KernelsTest : public GpuTest {
 protected:
  static uint32_t Tiles(int32_t length, int32_t tile) {
    return static_cast<uint32_t>((length + tile - 1) / tile);
  }
  // c = a b, or a bᵀ: row-major, fp16 in, fp16 out.
  static std::vector<double> Product(const std::vector<Half>& a, const std::vector<Half>& b,
                                     int32_t m, int32_t n, int32_t k, bool b_is_transposed) {
    std::vector<double> c(static_cast<size_t>(m) * n);
    for (int32_t i = 0; i < m; ++i) {
      for (int32_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int32_t l = 0; l < k; ++l) {
          const size_t at =
              b_is_transposed ? static_cast<size_t>(j) * k + l : static_cast<size_t>(l) * n + j;
          sum += double{float(a[static_cast<size_t>(i) * k + l])} * double{float(b[at])};
        }
        c[static_cast<size_t>(i) * n + j] = sum;
      }
    }
    return c;
  }
  void CheckMatmul(const std::string& name, int32_t block_m, int32_t block_n) {
    const int32_t m = 272, n = 336, k = 208;  // not whole tiles; multiples of 16
    const auto a = RandomHalves(static_cast<size_t>(m) * k);
    const auto b = RandomHalves(static_cast<size_t>(k) * n);
    const Buffer<Half> a_buffer(a), b_buffer(b), c_buffer(static_cast<size_t>(m) * n);
    ASSERT_LAUNCH_OK(Enqueue(
        Open(name), Config(Tiles(m, block_m) * Tiles(n, block_n)),
        {a_buffer.argument(), b_buffer.argument(), c_buffer.argument(), &m, &n, &k, &k, &n, &n}));
    ExpectNear(c_buffer.Read(), Product(a, b, m, n, k, false), 2e-3);
  }
  void CheckDescriptorMatmul(const std::string& name, int32_t block_m) {
    const int32_t m = 272, n = 336, k = 192;
    const auto a = RandomHalves(static_cast<size_t>(m) * k);
    const auto b = RandomHalves(static_cast<size_t>(n) * k);
    const Buffer<Half> a_buffer(a), b_buffer(b), c_buffer(static_cast<size_t>(m) * n);
    kiln_launch_kernel* kernel = Open(name);
    ASSERT_NE(kernel, nullptr);
    std::vector<const void*> arguments;
    std::vector<kiln_launch_descriptor*> descriptors;
    for (const auto& [buffer, rows] : {std::pair{&a_buffer, m}, std::pair{&b_buffer, n}}) {
      kiln_launch_tensor tensor{};
      tensor.size = sizeof tensor;
      tensor.rank = 2;
      tensor.address = buffer->address();
      tensor.shape[0] = rows;
      tensor.shape[1] = tensor.strides[0] = k;
      tensor.strides[1] = 1;
      kiln_launch_descriptor* descriptor = nullptr;
      ASSERT_LAUNCH_OK(kiln_launch_descriptor_open(kernel, static_cast<uint32_t>(arguments.size()),
                                                   &tensor, &descriptor));
      descriptors.push_back(descriptor);
      const void* pointers[32];
      uint32_t count = 0;
      ASSERT_LAUNCH_OK(kiln_launch_descriptor_get_arguments(descriptor, pointers, 32, &count));
      arguments.insert(arguments.end(), pointers, pointers + count);
    }
    for (const void* argument : {static_cast<const void*>(c_buffer.argument()),
                                 static_cast<const void*>(&m), static_cast<const void*>(&n),
                                 static_cast<const void*>(&k), static_cast<const void*>(&n)}) {
      arguments.push_back(argument);
    }
    ASSERT_LAUNCH_OK(Enqueue(kernel, Config(Tiles(m, block_m) * Tiles(n, 128)), arguments));
    ExpectNear(c_buffer.Read(), Product(a, b, m, n, k, true), 2e-3);
    const OwnStream stream;
    BeginCapture(stream, CaptureMode::kGlobal);
    EXPECT_LAUNCH_OK(
        Enqueue(kernel, Config(Tiles(m, block_m) * Tiles(n, 128), 1, stream.get()), arguments));
    const Graph graph(EndCapture(stream));
    for (const DevicePointer address :
         {a_buffer.address(), b_buffer.address(), c_buffer.address()}) {
      EXPECT_EQ(kiln_launch_check_free(runtime_, address, 1), KILN_LAUNCH_FAILED_PRECONDITION);
    }
    for (kiln_launch_descriptor* descriptor : descriptors) kiln_launch_descriptor_close(descriptor);
  }
};

TEST_F(KernelsTest, VectorAdd) {
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  ASSERT_LAUNCH_OK(Enqueue(Open("vector_add"), Config(VectorAdd::kPrograms), add.arguments()));
  EXPECT_TRUE(add.IsRight());
}

TEST_F(KernelsTest, Softmax) {
  const int32_t rows = 300, columns = 1911, stride = 1920;
  const auto in = Random(static_cast<size_t>(rows) * stride);
  const Buffer<float> in_buffer(in), out_buffer(in.size());
  GPU(cuMemsetD8_v2(out_buffer.address(), 0, out_buffer.bytes()));
  ASSERT_LAUNCH_OK(
      Enqueue(Open("softmax"), Config(64),
              {out_buffer.argument(), in_buffer.argument(), &stride, &stride, &rows, &columns}));
  std::vector<double> expected(in.size());
  for (size_t row = 0; row < size_t{rows}; ++row) {
    double sum = 0;
    for (size_t i = 0; i < size_t{columns}; ++i) sum += std::exp(double{in[row * stride + i]});
    for (size_t i = 0; i < size_t{columns}; ++i) {
      expected[row * stride + i] = std::exp(double{in[row * stride + i]}) / sum;
    }
  }
  ExpectNear(out_buffer.Read(), expected, 1e-6);
}

TEST_F(KernelsTest, LayerNorm) {
  const int32_t rows = 128, columns = 1520, stride = 1520;
  const float epsilon = 1e-5f;
  const auto x = RandomHalves(static_cast<size_t>(rows) * columns);
  const auto weight = RandomHalves(columns);
  const auto bias = RandomHalves(columns);
  const Buffer<Half> x_buffer(x), y_buffer(x.size()), weight_buffer(weight), bias_buffer(bias);
  const Buffer<float> mean_buffer(rows), rstd_buffer(rows);
  ASSERT_LAUNCH_OK(Enqueue(
      Open("layer_norm_forward"), Config(rows),
      {x_buffer.argument(), y_buffer.argument(), weight_buffer.argument(), bias_buffer.argument(),
       mean_buffer.argument(), rstd_buffer.argument(), &stride, &columns, &epsilon}));
  std::vector<double> expected(x.size()), means(rows);
  for (size_t row = 0; row < size_t{rows}; ++row) {
    const auto at = [&](size_t i) { return double{float(x[row * columns + i])}; };
    double mean = 0, square = 0;
    for (size_t i = 0; i < size_t{columns}; ++i) mean += at(i) / columns;
    for (size_t i = 0; i < size_t{columns}; ++i)
      square += (at(i) - mean) * (at(i) - mean) / columns;
    means[row] = mean;
    for (size_t i = 0; i < size_t{columns}; ++i) {
      expected[row * columns + i] =
          (at(i) - mean) / std::sqrt(square + epsilon) * double{float(weight[i])} + float(bias[i]);
    }
  }
  ExpectNear(y_buffer.Read(), expected, 2e-3);
  ExpectNear(mean_buffer.Read(), means, 1e-5);
}

TEST_F(KernelsTest, Matmul) { CheckMatmul("matmul_64x64x32", 64, 64); }
// More shared memory than a block has without opting in.
TEST_F(KernelsTest, MatmulOfLargeTiles) { CheckMatmul("matmul_128x256x64", 128, 256); }
TEST_F(KernelsTest, MatmulOfTwoCtas) { CheckMatmul("matmul_128x128x64_two_ctas", 128, 128); }
TEST_F(KernelsTest, MatmulByTensorDescriptors) { CheckDescriptorMatmul("descriptor_matmul", 128); }
// More warps than were asked for.
TEST_F(KernelsTest, WarpSpecializedMatmul) { CheckDescriptorMatmul("warp_specialized_matmul", 64); }

TEST_F(KernelsTest, Attention) {
  const int32_t heads = 3, length = 208, width = 64;
  const float scale = 0.125f;
  const size_t count = static_cast<size_t>(heads) * length * width;
  const auto q = RandomHalves(count), k = RandomHalves(count), v = RandomHalves(count);
  const Buffer<Half> q_buffer(q), k_buffer(k), v_buffer(v), out_buffer(count);
  const Buffer<float> norm_buffer(static_cast<size_t>(heads) * length);
  ASSERT_LAUNCH_OK(Enqueue(Open("attention_forward"), Config(Tiles(length, 128), heads),
                           {q_buffer.argument(), k_buffer.argument(), v_buffer.argument(),
                            out_buffer.argument(), norm_buffer.argument(), &length, &scale}));
  std::vector<double> expected(count);
  for (size_t head = 0; head < size_t{heads}; ++head) {
    for (size_t i = 0; i < size_t{length}; ++i) {
      const size_t row = (head * length + i) * width;
      std::vector<double> weights(i + 1);
      double total = 0;
      for (size_t j = 0; j <= i; ++j) {
        double score = 0;
        for (size_t d = 0; d < size_t{width}; ++d) {
          score += double{float(q[row + d])} * float(k[(head * length + j) * width + d]);
        }
        total += weights[j] = std::exp(score * scale);
      }
      for (size_t j = 0; j <= i; ++j) {
        for (size_t d = 0; d < size_t{width}; ++d) {
          expected[row + d] += weights[j] / total * float(v[(head * length + j) * width + d]);
        }
      }
    }
  }
  ExpectNear(out_buffer.Read(), expected, 2e-3);
}

TEST_F(KernelsTest, WithProgrammaticDependentLaunch) {
  if (!IsAtLeast(90)) Skip("it needs cuda:90 or later");
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  kiln_launch_kernel* kernel = Open("vector_add");
  OwnStream stream;
  kiln_launch_config config = Config(VectorAdd::kPrograms, 1, stream.get());
  config.pdl = 1;
  ASSERT_LAUNCH_OK(Enqueue(kernel, config, add.arguments()));
  ASSERT_LAUNCH_OK(Enqueue(kernel, config, add.arguments()));
  EXPECT_TRUE(add.IsRight());
}

TEST_F(KernelsTest, WithCooperativeLaunch) {
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  kiln_launch_kernel* kernel = Open("vector_add");
  OwnStream stream;
  kiln_launch_config config = Config(VectorAdd::kPrograms, 1, stream.get());
  config.cooperative = 1;
  ASSERT_LAUNCH_OK(Enqueue(kernel, config, add.arguments()));
  EXPECT_TRUE(add.IsRight());
}

TEST_F(KernelsTest, FromEightThreadsAtOnce) {
  kiln_launch_kernel* kernel = Open("vector_add");
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel));
  const auto loads = Stats().loads;
  const auto x = Random(VectorAdd::kCount), y = Random(VectorAdd::kCount);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      // The library enters the kernel's context by itself; buffers are this thread's business.
      EnterGpu();
      OwnStream stream;
      const VectorAdd add(x, y);
      for (int j = 0; j < 500; ++j) {
        if (Enqueue(kernel, Config(VectorAdd::kPrograms, 1, stream.get()), add.arguments()) != 0) {
          return;
        }
      }
      stream.Wait();
      right += add.IsRight();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(Stats().loads, loads);
}

TEST_F(KernelsTest, FromAThreadWithoutAContext) {
  kiln_launch_kernel* kernel = Open("vector_add");
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  kiln_launch_code code = -1;
  std::string error;
  std::thread([&] {
    code = Enqueue(kernel, Config(VectorAdd::kPrograms), add.arguments());
    error = kiln_launch_error();
  }).join();
  EXPECT_EQ(code, KILN_LAUNCH_OK) << error;
  EXPECT_TRUE(add.IsRight());
}

// A prepared kernel is launched without asking which context is current: the driver must refuse.
TEST_F(KernelsTest, FromAThreadInAnotherContext) {
  kiln_launch_kernel* kernel = Open("vector_add");
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel));
  VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  OwnStream stream;
  for (Handle of : {stream.get(), Handle(nullptr)}) {
    kiln_launch_code code = -1;
    std::string error;
    std::thread([&] {
      Handle other = nullptr;
      Handle current = nullptr;
      GPU(cuCtxCreate_v2(&other, 0, 0));
      code = Enqueue(kernel, Config(VectorAdd::kPrograms, 1, of), add.arguments());
      error = kiln_launch_error();
      GPU(cuCtxGetCurrent(&current));
      EXPECT_EQ(current, other);
      GPU(cuCtxDestroy_v2(other));
    }).join();
    EXPECT_EQ(code, KILN_LAUNCH_OK) << error;
    stream.Wait();
    EXPECT_TRUE(add.IsRight());
    add.Clear();
  }
}

}  // namespace
}  // namespace kiln::gpu
