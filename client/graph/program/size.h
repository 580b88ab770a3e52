// Sizes that are known when a kernel is planned, or only when it is launched.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln::graph {

// A dimension that differs from launch to launch. The kernel takes it as a 64-bit parameter.
struct Symbol {
  std::string name;  // "batch": [A-Za-z_][A-Za-z0-9_]*, unique within a segment
  int64_t min = 1;
  int64_t max = 1;
  int64_t typical = 1;
  int64_t multiple_of = 1;  // every value is a multiple of it
};

// A polynomial over symbols with integer factors, in normal form: equal sizes compare equal.
// Additions and products that overflow 63 bits saturate IsValid() to false.
class Size {
 public:
  struct Term {
    int64_t factor = 0;
    std::vector<int> symbols;  // numbers of the segment's symbols, ascending; repeated for powers
    bool operator==(const Term&) const = default;
  };

  Size(int64_t value = 0);  // NOLINT: numbers are sizes
  static Size Of(int symbol);

  bool IsValid() const { return is_valid_; }
  std::optional<int64_t> Constant() const;
  const std::vector<Term>& terms() const { return terms_; }
  // With a value for each symbol; nothing where that overflows.
  std::optional<int64_t> Evaluate(const std::vector<int64_t>& symbols) const {
    return EvaluateAt(symbols);
  }
  std::optional<int64_t> EvaluateAt(std::span<const int64_t> symbols) const;
  // The largest number that every value is a multiple of, as far as the symbols say; 0 for size 0.
  int64_t MultipleOf(const std::vector<Symbol>& symbols) const;
  // "4*batch*heads + 1".
  std::string ToString(const std::vector<Symbol>& symbols) const;

  Size& operator+=(const Size& other);
  Size& operator*=(const Size& other);
  friend Size operator+(Size one, const Size& other) { return one += other; }
  friend Size operator-(Size one, const Size& other) { return one += other * Size(-1); }
  friend Size operator*(Size one, const Size& other) { return one *= other; }
  bool operator==(const Size&) const = default;

 private:
  static Size Overflow();
  void AddTerm(Term term);

  std::vector<Term> terms_;  // ascending by symbols, no factor 0
  bool is_valid_ = true;
};

// With the typical number of each symbol, by which tiles and threads are chosen: 1 at least.
int64_t TypicalOf(const Size& size, const std::vector<Symbol>& symbols);

}  // namespace kiln::graph
