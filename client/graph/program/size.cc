#include "client/graph/program/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace kiln::graph {
namespace {

// Multiplies `product` unless that overflows; a divisor of the true product is left then.
void MultiplyIfItFits(int64_t& product, int64_t factor) {
  int64_t larger = 0;
  if (!__builtin_mul_overflow(product, factor, &larger)) product = larger;
}

std::string TermText(const Size::Term& term, uint64_t factor, const std::vector<Symbol>& symbols) {
  std::string text;
  if (factor != 1 || term.symbols.empty()) text = fmt::format("{}", factor);
  for (const int symbol : term.symbols) {
    if (!text.empty()) text += '*';
    const bool is_known = symbol >= 0 && static_cast<size_t>(symbol) < symbols.size();
    text += is_known ? symbols[static_cast<size_t>(symbol)].name : fmt::format("s{}", symbol);
  }
  return text;
}

}  // namespace

Size::Size(int64_t value) {
  if (value != 0) terms_.push_back({value, {}});
}

Size Size::Of(int symbol) {
  Size size;
  size.terms_.push_back({1, {symbol}});
  return size;
}

std::optional<int64_t> Size::Constant() const {
  if (!is_valid_ || terms_.size() > 1) return std::nullopt;
  if (terms_.empty()) return 0;
  if (!terms_.front().symbols.empty()) return std::nullopt;
  return terms_.front().factor;
}

std::optional<int64_t> Size::EvaluateAt(std::span<const int64_t> symbols) const {
  if (!is_valid_) return std::nullopt;
  int64_t sum = 0;
  for (const Term& term : terms_) {
    int64_t product = term.factor;
    for (const int symbol : term.symbols) {
      const int64_t value = symbols[static_cast<size_t>(symbol)];
      if (__builtin_mul_overflow(product, value, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

int64_t Size::MultipleOf(const std::vector<Symbol>& symbols) const {
  if (!is_valid_) return 1;
  int64_t divisor = 0;
  for (const Term& term : terms_) {
    int64_t product = term.factor;
    for (const int symbol : term.symbols) {
      MultiplyIfItFits(product, symbols[static_cast<size_t>(symbol)].multiple_of);
    }
    divisor = std::gcd(divisor, product);
  }
  return divisor;
}

std::string Size::ToString(const std::vector<Symbol>& symbols) const {
  if (!is_valid_) return "overflow";
  if (terms_.empty()) return "0";
  std::string text;
  const auto append = [&](const Term& term) {
    const bool is_negative = term.factor < 0;
    const uint64_t magnitude =
        is_negative ? -static_cast<uint64_t>(term.factor) : static_cast<uint64_t>(term.factor);
    if (text.empty()) {
      text = is_negative ? "-" : "";
    } else {
      text += is_negative ? " - " : " + ";
    }
    text += TermText(term, magnitude, symbols);
  };
  for (const Term& term : terms_) {
    if (!term.symbols.empty()) append(term);
  }
  if (terms_.front().symbols.empty()) append(terms_.front());
  return text;
}

void Size::AddTerm(Term term) {
  if (!is_valid_ || term.factor == 0) return;
  const auto place = std::ranges::lower_bound(terms_, term.symbols, {}, &Term::symbols);
  if (place == terms_.end() || place->symbols != term.symbols) {
    terms_.insert(place, std::move(term));
  } else if (__builtin_add_overflow(place->factor, term.factor, &place->factor)) {
    *this = Overflow();
  } else if (place->factor == 0) {
    terms_.erase(place);
  }
}

Size Size::Overflow() {
  Size size;
  size.is_valid_ = false;
  return size;
}

Size& Size::operator+=(const Size& other) {
  if (!other.is_valid_) return *this = Overflow();
  for (const Term& term : std::vector<Term>(other.terms_)) AddTerm(term);
  return *this;
}

Size& Size::operator*=(const Size& other) {
  if (!is_valid_ || !other.is_valid_) return *this = Overflow();
  Size product;
  for (const Term& one : terms_) {
    for (const Term& two : other.terms_) {
      Term term;
      if (__builtin_mul_overflow(one.factor, two.factor, &term.factor)) return *this = Overflow();
      std::ranges::merge(one.symbols, two.symbols, std::back_inserter(term.symbols));
      product.AddTerm(std::move(term));
    }
  }
  return *this = std::move(product);
}

int64_t TypicalOf(const Size& size, const std::vector<Symbol>& symbols) {
  std::vector<int64_t> typical;
  for (const Symbol& symbol : symbols) typical.push_back(symbol.typical);
  return std::max<int64_t>(size.Evaluate(typical).value_or(INT64_MAX / 2), 1);
}

}  // namespace kiln::graph
