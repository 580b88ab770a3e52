// fp16 on the CPU.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kiln::gpu {

// IEEE binary16 as bits.
struct Half {
  uint16_t bits = 0;

  Half() = default;
  // Rounds to nearest even; what is too large becomes infinity.
  explicit Half(float value) {
    const auto single = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>(single >> 16 & 0x8000);
    const float magnitude = std::fabs(value);
    if (magnitude < 6.103515625e-5f) {  // denormals are multiples of 2^-24
      bits =
          static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)));
      return;
    }
    const uint32_t rounded = (single & 0x7fffffff) + 0xfff + (single >> 13 & 1);
    bits = static_cast<uint16_t>(sign |
                                 (magnitude >= 65520.0f ? 0x7c00 : (rounded - 0x38000000) >> 13));
  }
  explicit operator float() const {
    const uint32_t exponent = bits >> 10 & 31;
    const auto fraction = static_cast<float>(bits & 1023);
    const float magnitude = exponent == 0    ? fraction * 0x1p-24f
                            : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                             : std::ldexp(1024 + fraction, int(exponent) - 25);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

}  // namespace kiln::gpu
