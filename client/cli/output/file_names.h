// File names for kernels whose names may be anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kiln::cli {

// A file name that is safe everywhere and says which name it stands for: letters, digits, '_', '-'
// and inner dots stay, every other byte becomes %XX, and what is longer than 120 bytes is cut and
// given 16 digits of the name's digest after a '~'. No two names get the same one, because '~'
// itself is escaped. "" becomes "~empty".
[[nodiscard]] std::string SafeFileName(std::string_view name);

// Hands out a file name for each name, also when names repeat: "k", "k~2", "k~3", in the order in
// which they are asked for.
class FileNames {
 public:
  // `reserved` is taken already.
  explicit FileNames(std::string_view reserved) { ++used_[std::string(reserved)]; }

  std::string For(std::string_view name);

 private:
  std::unordered_map<std::string, uint32_t> used_;  // how often each safe name was handed out
};

}  // namespace kiln::cli
