// Keeps the times of kiln_launch_autotune with the daemon. Installed as <kiln/tuning_store.h>.
#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <cstdint>
#include <mutex>

namespace kiln {

class Client;

// Keeps times in the caller's own namespace: later processes of the same user find them, and those
// of the users who share tunings with that one (tunings.shared_by). Find and
// Put are the functions of a kiln_launch_tuning_store whose `user` is this object:
//
//   kiln::TuningStore times(*client);
//   kiln_launch_tuning_store store = {sizeof store, 0, kiln::TuningStore::Find,
//                                     kiln::TuningStore::Put, &times};
//
// A tuning does not fail without a daemon: after the first failed call this object asks no more, so
// a missing daemon costs `budget` once. Thread-safe; both functions block.
class TuningStore {
 public:
  // `client` must outlive it. `budget` is that of each call.
  explicit TuningStore(Client& client,
                       std::chrono::milliseconds budget = std::chrono::milliseconds(1000))
      : client_(client), budget_(budget) {}
  TuningStore(const TuningStore&) = delete;
  TuningStore& operator=(const TuningStore&) = delete;

  static uint64_t Find(void* user, const void* key, uint64_t key_bytes, void* value,
                       uint64_t capacity) noexcept;
  static void Put(void* user, const void* key, uint64_t key_bytes, const void* value,
                  uint64_t value_bytes) noexcept;

  // Why it no longer asks the daemon. OK: it asks.
  [[nodiscard]] absl::Status status() const;

 private:
  void Note(const absl::Status& status);

  Client& client_;
  const std::chrono::milliseconds budget_;
  // Not kiln::Mutex: this header is installed.
  mutable std::mutex mutex_;
  absl::Status status_;
};

}  // namespace kiln
