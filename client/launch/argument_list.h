// A launch's arguments for the driver.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "client/launch/driver/driver.h"

namespace kiln::launch {

// The caller's pointers, followed by pointers to the hidden arguments. On the stack up to 64
// arguments.
class ArgumentList {
 public:
  static constexpr size_t kInlineMax = 64;

  ArgumentList(const void* const* arguments, size_t count, Address* hidden, size_t hidden_count) {
    void** out = inline_.data();
    if (count + hidden_count > inline_.size()) {
      large_ = std::make_unique<void*[]>(count + hidden_count);
      out = large_.get();
    }
    // The driver's interface is older than const; it only reads.
    for (size_t i = 0; i < count; ++i) out[i] = const_cast<void*>(arguments[i]);
    for (size_t i = 0; i < hidden_count; ++i) out[count + i] = &hidden[i];
    data_ = out;
  }
  ArgumentList(const ArgumentList&) = delete;
  ArgumentList& operator=(const ArgumentList&) = delete;

  void** data() { return data_; }

 private:
  std::array<void*, kInlineMax> inline_;
  std::unique_ptr<void*[]> large_;
  void** data_;
};

}  // namespace kiln::launch
