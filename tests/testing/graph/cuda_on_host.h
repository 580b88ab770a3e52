// The part of CUDA C++ that emitted kernels use, for a compiler for the host. The threads of a
// block take turns: each runs up to the next barrier of the block, or until it would wait for
// another block. Blocks that wait for each other take turns, too; shared memory does not outlive
// such a turn.
#pragma once

#include <math.h>
#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static

struct OneDimension {
  unsigned x;
};
inline OneDimension blockIdx, threadIdx, gridDim;

template <typename To, typename From>
To BitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
inline unsigned __float_as_uint(float x) { return BitsAs<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return BitsAs<float>(x); }
inline long long __double_as_longlong(double x) { return BitsAs<long long>(x); }
inline double __longlong_as_double(long long x) { return BitsAs<double>(x); }

inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float kiln_f32_of_f16_bits(unsigned short x) { return BitsAs<_Float16>(x); }
inline unsigned short kiln_f16_bits_of_f32(float x) {
  return BitsAs<unsigned short>(static_cast<_Float16>(x));
}

template <typename T>
T Exchanged(T* p, T x) {
  const T old = *p;
  *p = x;
  return old;
}
template <typename T>
T atomicAdd(T* p, T x) {
  return Exchanged(p, static_cast<T>(*p + x));
}
template <typename T>
T atomicMin(T* p, T x) {
  return Exchanged(p, *p < x ? *p : x);
}
template <typename T>
T atomicMax(T* p, T x) {
  return Exchanged(p, *p > x ? *p : x);
}
template <typename T>
T atomicCAS(T* p, T seen, T x) {
  return Exchanged(p, *p == seen ? x : *p);
}

enum class FiberState { kRuns, kIsAtBarrier, kHasEnded };
struct Fiber {
  ucontext_t context;
  std::array<char, 1 << 16> stack;
  FiberState state;
};
using Block = std::vector<std::unique_ptr<Fiber>>;
inline Block* running;
inline ucontext_t turns;
inline std::function<void()> thread_body;
inline unsigned long long moves;  // to a barrier, or to the end

inline void GiveTurn() { swapcontext(&(*running)[threadIdx.x]->context, &turns); }
inline void EnterState(FiberState state) {
  (*running)[threadIdx.x]->state = state;
  ++moves;
}
inline void __syncthreads() {
  EnterState(FiberState::kIsAtBarrier);
  GiveTurn();
}
inline void RunThread() {
  thread_body();
  EnterState(FiberState::kHasEnded);
}
// What another block may still change.
inline unsigned long long kiln_host_load(const unsigned long long* p) {
  GiveTurn();
  return *p;
}

template <typename T>
T __shfl_xor_sync(unsigned, T x, unsigned bit) {
  static std::array<T, 256> given;
  given[threadIdx.x] = x;
  __syncthreads();
  const T other = given[threadIdx.x ^ bit];
  __syncthreads();
  return other;
}

inline void BeginBlock(Block& block, unsigned threads) {
  block.resize(threads);
  for (auto& fiber : block) {
    if (fiber == nullptr) fiber.reset(new Fiber);
  }
  for (auto& fiber : block) {
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.data();
    fiber->context.uc_stack.ss_size = fiber->stack.size();
    fiber->context.uc_link = &turns;
    fiber->state = FiberState::kRuns;
    makecontext(&fiber->context, RunThread, 0);
  }
}

// Up to the end, or to where it waits for other blocks. Whether it has ended.
inline bool RunBlock(Block& block) {
  const auto threads = static_cast<unsigned>(block.size());
  running = &block;
  for (bool is_stuck = false; !is_stuck;) {
    const auto before = moves;
    unsigned ended = 0, waiting = 0;
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
      Fiber& fiber = *block[threadIdx.x];
      if (fiber.state == FiberState::kRuns) swapcontext(&turns, &fiber.context);
      ended += fiber.state == FiberState::kHasEnded;
      waiting += fiber.state == FiberState::kIsAtBarrier;
    }
    if (ended == threads) return true;
    is_stuck = moves == before;
    if (ended + waiting < threads) continue;
    if (ended > 0) {
      std::fprintf(stderr, "%u of %u threads never come to a barrier\n", ended, threads);
      std::abort();
    }
    for (auto& fiber : block) fiber->state = FiberState::kRuns;
    is_stuck = false;
  }
  return false;
}

// Arguments are pointers to the parameters, as cuLaunchKernel takes them.
template <typename... Parameters, size_t... index>
void CallWith(void (*kernel)(Parameters...), void** arguments, std::index_sequence<index...>) {
  kernel(*static_cast<Parameters*>(arguments[index])...);
}
template <typename... Parameters>
void Launch(void (*kernel)(Parameters...), void** arguments, unsigned count, unsigned threads) {
  thread_body = [=] { CallWith(kernel, arguments, std::index_sequence_for<Parameters...>()); };
  gridDim.x = count;
  static std::vector<Block> free;
  std::vector<Block> begun(count);
  std::vector<bool> has_ended(count);
  unsigned ended = 0;
  for (int idle_turns = 0; ended < count;) {
    const auto before = moves;
    for (blockIdx.x = 0; blockIdx.x < count; ++blockIdx.x) {
      Block& block = begun[blockIdx.x];
      if (has_ended[blockIdx.x]) continue;
      if (block.empty()) {
        if (!free.empty()) {
          block = std::move(free.back());
          free.pop_back();
        }
        BeginBlock(block, threads);
      }
      if (!RunBlock(block)) continue;
      has_ended[blockIdx.x] = true;
      free.push_back(std::move(block));
      ++ended;
    }
    idle_turns = moves == before ? idle_turns + 1 : 0;
    if (idle_turns < 8) continue;
    std::fprintf(stderr, "%u of %u blocks wait for ever\n", count - ended, count);
    std::abort();
  }
}
