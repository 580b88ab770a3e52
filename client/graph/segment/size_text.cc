#include "client/graph/segment/size_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "absl/status/status.h"

namespace kiln::graph {
namespace {

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(std::string_view text, const std::vector<Symbol>& symbols)
      : text_(text), left_(text), symbols_(symbols) {}

  absl::StatusOr<Size> Parse() {
    Size sum;
    bool is_negative = Take('-');
    while (true) {
      auto product = Product();
      if (!product.ok()) return product;
      sum += *product * Size(is_negative ? -1 : 1);
      if (Take('+')) {
        is_negative = false;
      } else if (Take('-')) {
        is_negative = true;
      } else {
        break;
      }
    }
    if (!left_.empty()) return Wrong("it is no sum of products of integers and symbols");
    if (!sum.IsValid()) return Wrong("it overflows");
    return sum;
  }

 private:
  absl::StatusOr<Size> Product() {
    Size product = 1;
    do {
      auto factor = Factor();
      if (!factor.ok()) return factor;
      product *= *factor;
    } while (Take('*'));
    return product;
  }

  absl::StatusOr<Size> Factor() {
    SkipSpaces();
    if (!left_.empty() && IsDigit(left_.front())) {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), number);
      if (error != std::errc()) return Wrong("it overflows");
      left_.remove_prefix(static_cast<size_t>(end - left_.data()));
      return Size(number);
    }
    const auto end =
        std::ranges::find_if_not(left_, [](char c) { return IsNameStart(c) || IsDigit(c); });
    const std::string_view name(left_.begin(), end);
    if (!IsSymbolName(name)) return Wrong("it is no sum of products of integers and symbols");
    const auto symbol = std::ranges::find(symbols_, name, &Symbol::name);
    if (symbol == symbols_.end()) return Wrong(fmt::format("no symbol has the name {}", name));
    left_.remove_prefix(name.size());
    return Size::Of(static_cast<int>(symbol - symbols_.begin()));
  }

  void SkipSpaces() {
    while (left_.starts_with(' ')) left_.remove_prefix(1);
  }
  bool Take(char c) {
    SkipSpaces();
    if (!left_.starts_with(c)) return false;
    left_.remove_prefix(1);
    return true;
  }
  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("\"{:.100}\": {}", text_, what));
  }

  const std::string_view text_;
  std::string_view left_;
  const std::vector<Symbol>& symbols_;
};

}  // namespace

absl::StatusOr<Size> ParseSize(std::string_view text, const std::vector<Symbol>& symbols) {
  return Parser(text, symbols).Parse();
}

bool IsSymbolName(std::string_view text) {
  return !text.empty() && IsNameStart(text.front()) &&
         std::ranges::all_of(text, [](char c) { return IsNameStart(c) || IsDigit(c); });
}

}  // namespace kiln::graph
