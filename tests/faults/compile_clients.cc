// One process of many that all ask for the same kernel, some of them impatiently:
//
//   compile_clients ROOT SEED REQUESTS
//
// Asks the daemon on ROOT so many times, ten at once. Every other request has a deadline that may
// well pass before the kernel is there, which cancels the call. Prints how often it was told what:
// "compiled joined hit left other", and on standard error what the others were.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "client/rpc/client.h"
#include "tests/testing/simple_kernel.h"

namespace kiln {
namespace {

enum What { kCompiled, kJoined, kHit, kLeft, kOther, kWhats };
using Counts = std::array<std::atomic<int>, kWhats>;

What WhatWas(const absl::StatusOr<v1::CompileResponse>& answer) {
  if (!answer.ok()) return absl::IsDeadlineExceeded(answer.status()) ? kLeft : kOther;
  switch (answer->outcome()) {
    case v1::OUTCOME_COMPILED:
      return kCompiled;
    case v1::OUTCOME_JOINED:
      return kJoined;
    case v1::OUTCOME_HIT:
      return kHit;
    default:
      return kOther;
  }
}

void Ask(Client& client, unsigned seed, int requests, Counts& counts) {
  std::mt19937 random(seed);
  for (int i = 0; i < requests; ++i) {
    CallOptions call;
    if (random() % 2 == 0) {
      call.deadline =
          std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 300'000);
    }
    const auto answer = client.Compile(SimpleKernel(0), call);
    const What what = WhatWas(answer);
    if (what == kOther) std::fprintf(stderr, "%s\n", answer.status().ToString().c_str());
    ++counts[what];
  }
}

int Run(const char* root, unsigned seed, int requests) {
  constexpr int kThreads = 10;
  ConnectOptions options;
  options.root = root;
  options.connect_budget = std::chrono::minutes(1);
  options.answer_budget = std::chrono::minutes(1);
  const auto client = Client::Connect(options);
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  Counts counts{};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&, i] { Ask(**client, seed * kThreads + i, requests / kThreads, counts); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<int>& count : counts) std::printf("%d ", count.load());
  std::printf("\n");
  return 0;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return kiln::Run(argv[1], static_cast<unsigned>(std::atoi(argv[2])), std::atoi(argv[3]));
}
