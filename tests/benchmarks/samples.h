// Percentiles for Google Benchmark, which reports means: a hit's price is its median, since one
// stall of a shared machine would drown a thousand calls.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace kiln::benchmarks {

inline double Percentile(std::vector<double>& samples, size_t percent) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() * percent / 100];
}

// Runs `once` for each iteration of `state`, times each call by itself, and reports p50_us, p99_us,
// and how many calls there were in the whole process, those that found the number of iterations
// too.
template <typename Once>
void MeasureEach(benchmark::State& state, const Once& once) {
  std::vector<double> micros;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    once();
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - begin;
    micros.push_back(elapsed.count());
  }
  static size_t calls = 0;  // one for each type of `once`
  calls += micros.size();
  state.counters["calls"] = static_cast<double>(calls);
  state.counters["p50_us"] = Percentile(micros, 50);
  state.counters["p99_us"] = Percentile(micros, 99);
}

}  // namespace kiln::benchmarks
