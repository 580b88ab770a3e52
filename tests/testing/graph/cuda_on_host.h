// The part of CUDA C++ that emitted kernels use, for a compiler for the host. The threads of a
// block take turns: each runs up to the next barrier.
#pragma once

#include <math.h>
#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static

struct OneDimension {
  unsigned x;
};
inline OneDimension blockIdx, threadIdx;

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

// All threads of a block come to the same barriers, so one turn of each takes all of them there, or
// to the end.
struct Fiber {
  ucontext_t context;
  std::array<char, 1 << 16> stack;
  bool has_ended;
};
inline std::array<Fiber, 256> fibers;
inline ucontext_t turns;
inline std::function<void()> thread_body;

inline void __syncthreads() { swapcontext(&fibers[threadIdx.x].context, &turns); }
inline void RunThread() {
  thread_body();
  fibers[threadIdx.x].has_ended = true;
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

inline void RunBlock(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& fiber = fibers[i];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = &turns;
    fiber.has_ended = false;
    makecontext(&fiber.context, RunThread, 0);
  }
  for (unsigned ended = 0; ended < threads;) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
      Fiber& fiber = fibers[threadIdx.x];
      swapcontext(&turns, &fiber.context);
      if (fiber.has_ended) ++ended;
    }
    if (ended == 0 || ended == threads) continue;
    std::fprintf(stderr, "%u of %u threads never come to a barrier\n", ended, threads);
    std::abort();
  }
}

// Arguments are pointers to the parameters, as cuLaunchKernel takes them.
template <typename... Parameters, size_t... index>
void CallWith(void (*kernel)(Parameters...), void** arguments, std::index_sequence<index...>) {
  kernel(*static_cast<Parameters*>(arguments[index])...);
}
template <typename... Parameters>
void Launch(void (*kernel)(Parameters...), void** arguments, unsigned blocks, unsigned threads) {
  thread_body = [=] { CallWith(kernel, arguments, std::index_sequence_for<Parameters...>()); };
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) RunBlock(threads);
}
