#include "client/rpc/tuning_store.h"

#include <algorithm>
#include <string>

#include "client/rpc/client.h"

namespace kiln {
namespace {

// What an entry's one file is called.
constexpr std::string_view kTimesFile = "times";

CallOptions Within(std::chrono::milliseconds budget) {
  CallOptions options;
  options.deadline = std::chrono::steady_clock::now() + budget;
  return options;
}

}  // namespace

uint64_t TuningStore::Find(void* user, const void* key, uint64_t key_bytes, void* value,
                           uint64_t capacity) noexcept {
  return static_cast<TuningStore*>(user)->FindValue({static_cast<const char*>(key), key_bytes},
                                                    static_cast<char*>(value), capacity);
}

void TuningStore::Put(void* user, const void* key, uint64_t key_bytes, const void* value,
                      uint64_t value_bytes) noexcept {
  static_cast<TuningStore*>(user)->PutValue({static_cast<const char*>(key), key_bytes},
                                            {static_cast<const char*>(value), value_bytes});
}

absl::Status TuningStore::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void TuningStore::Note(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = status;
}

uint64_t TuningStore::FindValue(std::string_view key, char* value, uint64_t capacity) {
  if (!status().ok()) return 0;
  const auto entries = client_.GetOwn({std::string(key)}, Within(budget_));
  Note(entries.status());
  if (!entries.ok() || entries->empty() || entries->front().files_size() != 1) return 0;
  const std::string& content = entries->front().files(0).content();
  if (content.size() > capacity) return 0;
  std::copy(content.begin(), content.end(), value);
  return content.size();
}

void TuningStore::PutValue(std::string_view key, std::string_view value) {
  if (!status().ok()) return;
  v1::OwnEntry entry;
  entry.set_key(std::string(key));
  v1::OwnFile& file = *entry.add_files();
  file.set_name(std::string(kTimesFile));
  file.set_content(std::string(value));
  Note(client_.PutOwn({entry}, Within(budget_)));
}

}  // namespace kiln
