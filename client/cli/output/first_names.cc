#include "client/cli/output/first_names.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "client/cli/output/console.h"

namespace kiln::cli {
namespace {

constexpr size_t kFirstNamesMax = 16;

}  // namespace

void FirstNames::Add(uint64_t at, std::string name) {
  names_.emplace(at, std::move(name));
  if (names_.size() > kFirstNamesMax) names_.erase(std::prev(names_.end()));
}

Json FirstNames::AsJson() const {
  Json names = Json::array();
  for (const auto& [at, name] : names_) names.push_back(name);
  return names;
}

void FirstNames::Print(std::ostream& out, const char* title, uint64_t count) const {
  for (const auto& [at, name] : names_) out << "  " << title << ": " << Printable(name) << '\n';
  if (count > names_.size()) {
    out << fmt::format("  {}: {} more\n", title, count - names_.size());
  }
}

}  // namespace kiln::cli
