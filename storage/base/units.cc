#include "storage/base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace kiln {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr std::string_view kSizeForm =
    "expected a size in B, KiB, MiB, GiB or TiB (K, M, G and T for short), such as \"10GiB\"";

constexpr std::array<Unit, 5> kSizeUnits{{{"TiB", uint64_t{1} << 40},
                                          {"GiB", uint64_t{1} << 30},
                                          {"MiB", uint64_t{1} << 20},
                                          {"KiB", uint64_t{1} << 10},
                                          {"B", 1}}};
// FormatDuration takes the first that fits.
constexpr std::array<Unit, 5> kDurationUnits{
    {{"h", 3'600'000}, {"min", 60'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Nothing where the text is anything but one number.
template <typename Number>
std::optional<Number> ParseWhole(std::string_view text, int base) {
  text = Trim(text);
  const char* const end = text.data() + text.size();
  Number number = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, number, base);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

// The number in front of a unit, and the unit.
struct Quantity {
  std::string_view number;
  std::string_view unit;
};

Quantity Split(std::string_view text) {
  text = Trim(text);
  size_t end = 0;
  while (end < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.')) {
    ++end;
  }
  return {text.substr(0, end), Trim(text.substr(end))};
}

// `number` times `factor`: exact for whole numbers, rounded for fractions ("1.5GiB").
absl::StatusOr<uint64_t> Multiply(std::string_view number, uint64_t factor) {
  if (const auto whole = ParseWhole<uint64_t>(number, 10)) {
    uint64_t product;
    if (!__builtin_mul_overflow(*whole, factor, &product)) return product;
    return InvalidArgument("too large");
  }
  const char* const end = number.data() + number.size();
  double fraction = 0;
  const auto [tail, failure] = std::from_chars(number.data(), end, fraction);
  if (failure != std::errc() || tail != end) return InvalidArgument("not a number");
  const double product = fraction * static_cast<double>(factor);
  // 2^63: far above every bound, and exactly representable.
  if (!(product < 9.2e18)) return InvalidArgument("too large");
  return static_cast<uint64_t>(std::llround(product));
}

template <size_t N>
const Unit* Find(const std::array<Unit, N>& units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

// "GB": a power of 1000 to some, of 1024 to others.
bool IsAmbiguousUnit(std::string_view name) {
  return name.size() == 2 && name.back() == 'B' &&
         Find(kSizeUnits, fmt::format("{}iB", name.front())) != nullptr;
}

template <size_t N>
std::string Format(const std::array<Unit, N>& units, uint64_t value) {
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.factor == 0) {
      return fmt::format("{}{}", value / unit.factor, unit.name);
    }
  }
  return fmt::format("0{}", units.back().name);
}

}  // namespace

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  const Quantity quantity = Split(text);
  std::string name(quantity.unit.empty() ? "B" : quantity.unit);
  if (name.size() == 1 && name != "B") name += "iB";
  const Unit* unit = Find(kSizeUnits, name);
  if (quantity.number.empty() || (unit == nullptr && !IsAmbiguousUnit(name))) {
    return InvalidArgument("{}", kSizeForm);
  }
  if (unit == nullptr) {
    return InvalidArgument("{}; {} means two things", kSizeForm, name);
  }
  return Multiply(quantity.number, unit->factor);
}

std::string FormatSize(uint64_t bytes) { return Format(kSizeUnits, bytes); }

absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  const Quantity quantity = Split(text);
  const Unit* unit = Find(kDurationUnits, quantity.unit);
  if (unit == nullptr || quantity.number.empty()) {
    return InvalidArgument("expected a duration in ms, s, min or h, such as \"300s\"");
  }
  KILN_ASSIGN_OR_RETURN(const uint64_t millis, Multiply(quantity.number, unit->factor));
  if (millis > uint64_t{std::numeric_limits<int64_t>::max()} / 1'000'000) {
    return InvalidArgument("too large");  // it would not fit in the clock's nanoseconds
  }
  return std::chrono::milliseconds(millis);
}

std::string FormatDuration(std::chrono::milliseconds duration) {
  return Format(kDurationUnits, static_cast<uint64_t>(duration.count()));
}

absl::StatusOr<int64_t> ParseInteger(std::string_view text) {
  if (const auto value = ParseWhole<int64_t>(text, 10)) return *value;
  return InvalidArgument("expected a whole number");
}

absl::StatusOr<uint32_t> ParseFileMode(std::string_view text) {
  const auto value = ParseWhole<uint32_t>(text, 8);
  if (value && *value <= 0777) return *value;
  return InvalidArgument("expected octal permission bits, such as \"0660\"");
}

}  // namespace kiln
