#include "client/launch/scratch.h"

namespace kiln::launch {
namespace {

// What every driver aligns its allocations to; OpenCL promises no more.
constexpr uint64_t kDriverAlignment = 128;

}  // namespace

Status Scratch::Allocate(uint64_t bytes, uint64_t alignment) {
  if (bytes == 0) return Status();
  if (alignment == 0) alignment = 1;
  if (settings_.scratch_allocate != nullptr) {
    allocated_ = address_ =
        settings_.scratch_allocate(settings_.scratch_user, bytes, alignment, stream_);
    if (allocated_ != 0) return Status();
    return ResourceExhausted("the caller's allocator has no {} bytes of scratch", bytes);
  }
  const uint64_t slack = alignment > kDriverAlignment ? alignment : 0;
  // Without it, the allocation would end captures of other threads.
  const ScopedRelaxedCapture relaxed(driver_);
  const StatusOr<Address> got = driver_.AllocateAsync(bytes + slack, stream_);
  if (!got.ok()) return got.status().Annotate(fmt::format("{} bytes of scratch", bytes));
  allocated_ = *got;
  address_ = (allocated_ + alignment - 1) / alignment * alignment;
  return Status();
}

Scratch::~Scratch() {
  if (allocated_ == 0) return;
  if (settings_.scratch_allocate != nullptr) {
    if (settings_.scratch_release != nullptr) {
      settings_.scratch_release(settings_.scratch_user, allocated_, stream_);
    }
    return;
  }
  const ScopedRelaxedCapture relaxed(driver_);
  // After a failure the driver keeps the memory until the context ends.
  static_cast<void>(driver_.FreeAsync(allocated_, stream_));
}

}  // namespace kiln::launch
