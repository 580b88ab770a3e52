#include "daemon/worker/native/ptx_text.h"

#include <algorithm>
#include <charconv>

namespace kiln {
namespace {

bool IsPtxWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%' || c == '.';
}

// Words (names, numbers, directives with their dots) and single other characters, without comments,
// strings and white space.
class PtxTokens {
 public:
  explicit PtxTokens(std::string_view text) : text_(text) {}

  // "" at the end.
  std::string_view Next() {
    SkipToToken();
    if (position_ == text_.size()) return "";
    const size_t begin = position_++;
    if (IsPtxWordCharacter(text_[begin])) {
      while (position_ < text_.size() && IsPtxWordCharacter(text_[position_])) ++position_;
    }
    return text_.substr(begin, position_ - begin);
  }

 private:
  void SkipToToken() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      const std::string_view two = text_.substr(position_, 2);
      if (two == "//") {
        SkipPast("\n", 2);
      } else if (two == "/*") {
        SkipPast("*/", 2);
      } else if (c == '"') {
        SkipPast("\"", 1);
      } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
        ++position_;
      } else {
        return;
      }
    }
  }
  void SkipPast(std::string_view end, size_t from) {
    const size_t found = text_.find(end, position_ + from);
    position_ = found == std::string_view::npos ? text_.size() : found + end.size();
  }

  const std::string_view text_;
  size_t position_ = 0;
};

bool IsPtxType(std::string_view word) {
  static constexpr std::string_view kTypes[] = {
      ".b8",  ".b16", ".b32",   ".b64",    ".b128",       ".u8",     ".u16",
      ".u32", ".u64", ".s8",    ".s16",    ".s32",        ".s64",    ".f16",
      ".f32", ".f64", ".f16x2", ".texref", ".samplerref", ".surfref"};
  return std::find(std::begin(kTypes), std::end(kTypes), word) != std::end(kTypes);
}

// ".param .align 64 .b8 name[128]", ".param .u64 .ptr .global .align 16 name"; `tokens` stands
// behind the opening parenthesis.
std::vector<KernelParameter> ReadPtxParameters(PtxTokens& tokens) {
  std::vector<KernelParameter> parameters;
  KernelParameter current;
  for (std::string_view word = tokens.Next(); !word.empty(); word = tokens.Next()) {
    if (word == ")" || word == ",") {
      if (!current.type.empty()) parameters.push_back(std::move(current));
      current = {};
      if (word == ")") break;
    } else if (word == "[") {
      current.type += fmt::format("[{}]", tokens.Next());
    } else if (IsPtxType(word)) {
      current.type = word.substr(1);
    } else if (word == ".align") {
      (void)tokens.Next();
    } else if (word[0] != '.' && IsPtxWordCharacter(word[0])) {
      current.name = word;
    }
  }
  return parameters;
}

// "128, 1, 1"; missing ones are 1. `word` becomes what follows.
std::optional<Extent> ReadExtent(PtxTokens& tokens, std::string_view& word) {
  Extent extent{1, 1, 1};
  for (size_t i = 0; i < extent.size(); ++i) {
    word = tokens.Next();
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), extent[i]);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    word = tokens.Next();
    if (word != ",") break;
  }
  return extent;
}

// Behind ".entry". False where it is only declared.
bool ReadPtxEntry(PtxTokens& tokens, PtxEntry& entry) {
  entry.name = tokens.Next();
  std::string_view word = tokens.Next();
  while (!word.empty() && word != "{" && word != ";") {
    if (word == "(") {
      entry.parameters = ReadPtxParameters(tokens);
      word = tokens.Next();
    } else if (word == ".reqntid") {
      entry.required_threads = ReadExtent(tokens, word);
    } else if (word == ".maxntid") {
      entry.maximum_threads = ReadExtent(tokens, word);
    } else if (word == ".reqnctapercluster") {
      entry.cluster = ReadExtent(tokens, word);
    } else {
      word = tokens.Next();
    }
  }
  return word == "{";
}

}  // namespace

std::vector<PtxEntry> PtxEntries(std::string_view text) {
  std::vector<PtxEntry> entries;
  PtxTokens tokens(text);
  for (std::string_view word = tokens.Next(); !word.empty(); word = tokens.Next()) {
    if (word != ".entry") continue;
    PtxEntry entry;
    if (ReadPtxEntry(tokens, entry)) entries.push_back(std::move(entry));
  }
  return entries;
}

std::string PtxArchitecture(std::string_view text) {
  constexpr std::string_view kPrefix = "sm_";
  PtxTokens tokens(text);
  std::string_view word = tokens.Next();
  while (!word.empty() && word != ".target") word = tokens.Next();
  // A list: ".target sm_90, debug".
  do {
    word = tokens.Next();
    if (word.starts_with(kPrefix)) return std::string(word.substr(kPrefix.size()));
    word = tokens.Next();
  } while (word == ",");
  return "";
}

}  // namespace kiln
