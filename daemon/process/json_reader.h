// Reads fields of a JSON object that nobody vouches for.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"

namespace kiln {

// Each getter gives the field or its zero value, and remembers the first thing that was wrong; ask
// status() before believing any of them. Not thread-safe.
class JsonReader {
 public:
  // `json` must outlive the reader. `what` names it in messages.
  JsonReader(const nlohmann::json& json, std::string_view what);

  std::string String(const char* field, size_t bytes_max);
  // Between 0 and `max`.
  uint64_t Count(const char* field, uint64_t max);
  bool Bool(const char* field);
  // An array of at most `size_max` elements, or an object. The zero value is null: no elements.
  const nlohmann::json& Array(const char* field, size_t size_max);
  const nlohmann::json& Object(const char* field);
  std::vector<std::string> Strings(const char* field, size_t size_max, size_t bytes_max);
  // Whether the field is there and not null.
  bool Has(const char* field) const;

  const absl::Status& status() const { return status_; }
  void Fail(std::string_view field, std::string_view expected);

 private:
  // Null where the field is absent.
  const nlohmann::json& Find(const char* field) const;

  const nlohmann::json& json_;
  std::string what_;
  absl::Status status_;
};

}  // namespace kiln
