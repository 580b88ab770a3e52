// The part of CUDA C++ that emitted kernels use, for a compiler for the host. host_threads.h runs
// the threads.
#pragma once

#include <math.h>

#include <utility>

#include "host_grid.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static

extern "C" {
HostGrid* kiln_host_grid;
}
#define blockIdx kiln_host_grid->block
#define threadIdx kiln_host_grid->thread
#define gridDim kiln_host_grid->blocks

inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float kiln_f32_of_f16_bits(unsigned short x) { return __builtin_bit_cast(_Float16, x); }
inline unsigned short kiln_f16_bits_of_f32(float x) {
  return __builtin_bit_cast(unsigned short, static_cast<_Float16>(x));
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

inline void __syncthreads() { kiln_host_grid->barrier(); }
// What another block may still change.
inline unsigned long long kiln_host_load(const unsigned long long* p) {
  kiln_host_grid->give_turn();
  return *p;
}

template <typename T>
T __shfl_xor_sync(unsigned, T x, unsigned bit) {
  // One is read while the next exchange writes the other.
  static T given[2][256];
  T* const now = given[kiln_host_grid->barriers % 2];
  now[threadIdx.x] = x;
  __syncthreads();
  return now[threadIdx.x ^ bit];
}

// Arguments are pointers to the parameters, as cuLaunchKernel takes them.
template <typename... Parameters, size_t... index>
void CallWith(void (*kernel)(Parameters...), void** arguments, std::index_sequence<index...>) {
  kernel(*static_cast<Parameters*>(arguments[index])...);
}
template <typename... Parameters>
void Call(void (*kernel)(Parameters...), void** arguments) {
  CallWith(kernel, arguments, std::index_sequence_for<Parameters...>());
}
