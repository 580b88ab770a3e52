// The first of many names, for a person.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>

#include "client/cli/output/json.h"

namespace kiln::cli {

// Holds 16 names, since a manifest may have millions. Not thread-safe.
class FirstNames {
 public:
  // `at`: the name's position, in any order.
  void Add(uint64_t at, std::string name);
  void Remove(uint64_t at) { names_.erase(at); }

  Json AsJson() const;
  // "  TITLE: NAME" for each, and "  TITLE: 5 more" where `count` is more.
  void Print(std::ostream& out, const char* title, uint64_t count) const;
  // "" where there is none.
  std::string First() const { return names_.empty() ? "" : names_.begin()->second; }

 private:
  std::map<uint64_t, std::string> names_;  // by position
};

}  // namespace kiln::cli
