#include "tests/testing/graph/narrow_float.h"

#include <bit>
#include <cmath>
#include <limits>

namespace kiln::graph {
namespace {

struct Format {
  int bits;
  int mantissa;      // stored bits
  int min_exponent;  // of normal numbers
  double max;
  bool has_infinity;
  bool saturates;
};

Format FormatOf(DType type) {
  switch (type) {
    case DType::kF8E4M3:
      return {8, 3, -6, 448, false, true};
    case DType::kF8E5M2:
      return {8, 2, -14, 57344, true, true};
    case DType::kBF16:
      return {16, 7, -126, std::ldexp(255.0, 120), true, false};
    default:
      return {16, 10, -14, 65504, true, false};
  }
}

// The distance of the format's numbers around this one.
double StepAt(const Format& format, double number) {
  const int exponent = number == 0 ? format.min_exponent : std::ilogb(number);
  return std::ldexp(1.0, std::max(exponent, format.min_exponent) - format.mantissa);
}

uint64_t AllOnesExponent(const Format& format) {
  const uint64_t mask = (1ULL << (format.bits - 1)) - 1;
  return mask & ~((1ULL << format.mantissa) - 1);
}

}  // namespace

double RoundTo(DType type, double number) {
  if (type == DType::kF64 || std::isnan(number)) return number;
  if (type == DType::kF32) return static_cast<float>(number);
  const Format format = FormatOf(type);
  if (std::isinf(number) && !format.saturates) return number;
  const double step = std::isinf(number) ? 1 : StepAt(format, number);
  const double rounded = std::nearbyint(number / step) * step;
  if (std::fabs(rounded) <= format.max) return std::copysign(rounded, number);
  const double limit = format.saturates ? format.max : std::numeric_limits<double>::infinity();
  return std::copysign(limit, number);
}

uint64_t ToBits(DType type, double number) {
  if (type == DType::kF64) return std::bit_cast<uint64_t>(number);
  if (type == DType::kF32) return std::bit_cast<uint32_t>(static_cast<float>(number));
  const Format format = FormatOf(type);
  const uint64_t sign = std::signbit(number) ? 1ULL << (format.bits - 1) : 0;
  const uint64_t all_ones = AllOnesExponent(format);
  if (std::isnan(number)) return sign | all_ones | ((1ULL << format.mantissa) - 1);
  if (std::isinf(number)) return sign | all_ones;
  const double size = std::fabs(number);
  const auto steps = static_cast<uint64_t>(size / StepAt(format, number));
  if (steps < (1ULL << format.mantissa)) return sign | steps;  // subnormal
  // The leading one of `steps` counts as one of the exponent.
  return sign |
         ((static_cast<uint64_t>(std::ilogb(size) - format.min_exponent) << format.mantissa) +
          steps);
}

double FromBits(DType type, uint64_t bits) {
  if (type == DType::kF64) return std::bit_cast<double>(bits);
  if (type == DType::kF32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const Format format = FormatOf(type);
  const bool is_negative = (bits >> (format.bits - 1)) != 0;
  const uint64_t rest = bits & ((1ULL << (format.bits - 1)) - 1);
  const uint64_t mantissa = rest & ((1ULL << format.mantissa) - 1);
  const auto exponent = static_cast<int>(rest >> format.mantissa);
  double size = 0;
  if (format.has_infinity && rest >= AllOnesExponent(format)) {
    size = mantissa == 0 ? std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  } else if (!format.has_infinity && rest == (1ULL << (format.bits - 1)) - 1) {
    size = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    size = std::ldexp(static_cast<double>(mantissa), format.min_exponent - format.mantissa);
  } else {
    const uint64_t steps = mantissa + (1ULL << format.mantissa);
    size = std::ldexp(static_cast<double>(steps),
                      exponent - 1 + format.min_exponent - format.mantissa);
  }
  return is_negative ? -size : size;
}

}  // namespace kiln::graph
