// One matmul, to be launched in the 18 configurations that tests/gpu/launch_kernels.py makes.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "client/launch/kiln_launch.h"
#include "tests/gpu/launch/gpu.h"
#include "tests/gpu/launch/half.h"

namespace kiln::gpu {

class TunedMatmul {
 public:
  struct Tile {
    std::string name;  // of the kernel, without its target
    int32_t m, n, warps, stages;
  };
  static const std::vector<Tile>& Tiles();

  // Multiples of 16.
  TunedMatmul(int32_t m, int32_t n, int32_t k);

  // `kernel` is not owned; null: a candidate that is left out.
  void Add(const Tile& tile, kiln_launch_kernel* kernel);
  std::vector<kiln_launch_candidate> candidates() const;
  // What it reads and writes, and its sizes as the problem. They live as long as this object.
  kiln_launch_autotune_options Options() const;

  kiln_launch_code Enqueue(size_t candidate) const;
  void Clear() { GPU(cuMemsetD8_v2(c_.address(), 0xff, c_.bytes())); }
  // Compares some hundred elements, the same each time, with the host's own sums:
  // |got − expected| / (1 + |expected|).
  double WorstError() const;

 private:
  std::vector<Half> RandomHalves(size_t count);

  std::mt19937 random_{20261122};
  int32_t m_, n_, k_;
  std::vector<Half> a_host_, b_host_;
  Buffer<Half> a_, b_, c_;
  std::vector<const void*> arguments_;
  kiln_launch_range reads_[2];
  kiln_launch_range writes_[1];
  std::string problem_;
  std::vector<kiln_launch_kernel*> kernels_;
  std::vector<kiln_launch_config> configs_;
};

}  // namespace kiln::gpu
