#include "tests/gpu/launch/tuned_matmul.h"

#include <algorithm>
#include <cmath>

namespace kiln::gpu {
namespace {

uint32_t CeilDiv(int32_t length, int32_t tile) {
  return static_cast<uint32_t>((length + tile - 1) / tile);
}

std::vector<TunedMatmul::Tile> MakeTiles() {
  struct Shape {
    int32_t m, n, warps;
  };
  struct Depth {
    int32_t k, stages;
  };
  std::vector<TunedMatmul::Tile> tiles;
  // As in launch_kernels.py.
  for (const Shape& shape : std::initializer_list<Shape>{
           {128, 256, 8}, {128, 128, 8}, {128, 128, 4}, {128, 64, 4}, {64, 128, 4}, {64, 64, 4}}) {
    for (const Depth& depth : std::initializer_list<Depth>{{64, 4}, {64, 3}, {32, 4}}) {
      tiles.push_back({"tuned_matmul_" + std::to_string(shape.m) + "x" + std::to_string(shape.n) +
                           "x" + std::to_string(depth.k) + "_w" + std::to_string(shape.warps) +
                           "_s" + std::to_string(depth.stages),
                       shape.m, shape.n, shape.warps, depth.stages});
    }
  }
  return tiles;
}

}  // namespace

const std::vector<TunedMatmul::Tile>& TunedMatmul::Tiles() {
  static const std::vector<Tile> tiles = MakeTiles();
  return tiles;
}

TunedMatmul::TunedMatmul(int32_t m, int32_t n, int32_t k)
    : m_(m),
      n_(n),
      k_(k),
      a_host_(RandomHalves(static_cast<size_t>(m) * static_cast<size_t>(k))),
      b_host_(RandomHalves(static_cast<size_t>(k) * static_cast<size_t>(n))),
      a_(a_host_),
      b_(b_host_),
      c_(static_cast<size_t>(m) * static_cast<size_t>(n)),
      arguments_{a_.argument(), b_.argument(), c_.argument(), &m_, &n_, &k_, &k_, &n_, &n_},
      reads_{{a_.address(), a_.bytes()}, {b_.address(), b_.bytes()}},
      writes_{{c_.address(), c_.bytes()}},
      problem_("m=" + std::to_string(m) + " n=" + std::to_string(n) + " k=" + std::to_string(k)) {}

std::vector<Half> TunedMatmul::RandomHalves(size_t count) {
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<Half> halves;
  halves.reserve(count);
  for (size_t i = 0; i < count; ++i) halves.emplace_back(distribution(random_));
  return halves;
}

void TunedMatmul::Add(const Tile& tile, kiln_launch_kernel* kernel) {
  kiln_launch_config config{};
  config.size = sizeof config;
  config.grid[0] = CeilDiv(m_, tile.m) * CeilDiv(n_, tile.n);
  config.grid[1] = config.grid[2] = 1;
  configs_.push_back(config);
  kernels_.push_back(kernel);
}

std::vector<kiln_launch_candidate> TunedMatmul::candidates() const {
  std::vector<kiln_launch_candidate> candidates;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    candidates.push_back({sizeof(kiln_launch_candidate), static_cast<uint32_t>(arguments_.size()),
                          kernels_[i], &configs_[i], arguments_.data()});
  }
  return candidates;
}

kiln_launch_autotune_options TunedMatmul::Options() const {
  kiln_launch_autotune_options options{};
  options.size = sizeof options;
  options.reads = reads_;
  options.read_count = 2;
  options.writes = writes_;
  options.write_count = 1;
  options.problem = problem_.data();
  options.problem_bytes = problem_.size();
  return options;
}

kiln_launch_code TunedMatmul::Enqueue(size_t candidate) const {
  return kiln_launch_enqueue(kernels_[candidate], &configs_[candidate], arguments_.data(),
                             static_cast<uint32_t>(arguments_.size()));
}

double TunedMatmul::WorstError() const {
  const std::vector<Half> c = c_.Read();
  std::mt19937 places(7);
  double worst = 0;
  for (int i = 0; i < 300; ++i) {
    const size_t row = places() % static_cast<size_t>(m_);
    const size_t column = places() % static_cast<size_t>(n_);
    double expected = 0;
    for (size_t j = 0; j < static_cast<size_t>(k_); ++j) {
      expected += double{float(a_host_[row * static_cast<size_t>(k_) + j])} *
                  double{float(b_host_[j * static_cast<size_t>(n_) + column])};
    }
    const double got = double{float(c[row * static_cast<size_t>(n_) + column])};
    worst = std::max(worst, std::fabs(got - expected) / (1 + std::fabs(expected)));
  }
  return worst;
}

}  // namespace kiln::gpu
