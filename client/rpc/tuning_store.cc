#include "client/rpc/tuning_store.h"

#include <algorithm>
#include <string>

#include "client/rpc/client.h"

namespace kiln {
uint64_t TuningStore::Find(void* user, const void* key, uint64_t key_bytes, void* value,
                           uint64_t capacity) noexcept {
  auto& store = *static_cast<TuningStore*>(user);
  if (!store.status().ok()) return 0;
  const std::string name(static_cast<const char*>(key), key_bytes);
  const auto deadline = std::chrono::steady_clock::now() + store.budget_;
  const auto entries = store.client_.GetOwn({name}, {.deadline = deadline}, OwnEntries::kTunings);
  store.Note(entries.status());
  if (!entries.ok() || entries->empty() || entries->front().files_size() != 1) return 0;
  const std::string& content = entries->front().files(0).content();
  if (content.size() > capacity) return 0;
  std::copy(content.begin(), content.end(), static_cast<char*>(value));
  return content.size();
}

void TuningStore::Put(void* user, const void* key, uint64_t key_bytes, const void* value,
                      uint64_t value_bytes) noexcept {
  auto& store = *static_cast<TuningStore*>(user);
  if (!store.status().ok()) return;
  v1::OwnEntry entry;
  entry.set_key(key, key_bytes);
  v1::OwnFile& file = *entry.add_files();
  file.set_name("times");
  file.set_content(value, value_bytes);
  const auto deadline = std::chrono::steady_clock::now() + store.budget_;
  store.Note(store.client_.PutOwn({entry}, {.deadline = deadline}, OwnEntries::kTunings));
}

absl::Status TuningStore::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void TuningStore::Note(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = status;
}

}  // namespace kiln
