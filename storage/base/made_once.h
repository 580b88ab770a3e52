// A part of an immutable object that is made when it is first needed.
#pragma once

#include <atomic>
#include <memory>

namespace kiln {

// The first caller of Set sets the value, and everybody shares it. A copy of the object starts
// without a value, and values do not count when objects are compared. Thread-safe, but for
// assignment; does not block.
template <typename Value>
class MadeOnce {
 public:
  MadeOnce() = default;
  MadeOnce(const MadeOnce&) {}
  MadeOnce& operator=(const MadeOnce&) {
    delete value_.exchange(nullptr);
    return *this;
  }
  ~MadeOnce() { delete value_.load(); }

  // Null where nobody has set it.
  const Value* Get() const { return value_.load(std::memory_order_acquire); }
  // Returns the value that everybody shares: this one, or an earlier one.
  const Value& Set(std::unique_ptr<const Value> value) const {
    const Value* set = nullptr;
    if (!value_.compare_exchange_strong(set, value.get())) return *set;
    return *value.release();
  }

  friend bool operator==(const MadeOnce&, const MadeOnce&) { return true; }

 private:
  mutable std::atomic<const Value*> value_ = nullptr;
};

}  // namespace kiln
