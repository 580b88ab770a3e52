// What XLA keeps for each custom call of an executable.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/jax/array_descriptor.h"
#include "client/jax/call_attributes.h"
#include "client/jax/shared_kernel.h"
#include "client/launch/kiln_launch.h"
#include "xla/ffi/api/ffi.h"

namespace kiln::jax {

// Where an execution runs.
struct Place {
  void* stream = nullptr;
  int32_t device = 0;
};

// A call, checked and loaded, ready to be launched any number of times. Thread-safe.
class LaunchState {
 public:
  static ffi::TypeId id;  // XLA gives it when the type is registered

  // Loads the kernel, unless no context is current: then the first execution does.
  // INVALID_ARGUMENT: an attribute does not fit the kernel.
  static ffi::ErrorOr<std::unique_ptr<LaunchState>> Make(kiln_launch_runtime* runtime,
                                                         const CallAttributes& call);
  ~LaunchState();
  LaunchState(const LaunchState&) = delete;
  LaunchState& operator=(const LaunchState&) = delete;

  // Puts the memsets and the launch on the stream. INVALID_ARGUMENT: other buffers than the
  // attributes say.
  ffi::Error Execute(const Place& place, const ffi::RemainingArgs& arguments,
                     const ffi::RemainingRets& results) const;

  // How many there were, and are, in the process.
  static uint64_t made();
  static uint64_t live();

 private:
  // The kernel's parameters; CUDA takes 4 kB of them, most of them pointers.
  static constexpr size_t kParametersMax = 512;
  struct Scratch {
    const char* attribute;
    int32_t result = -1;
    uint64_t bytes = 0;  // of the whole grid
  };

  LaunchState();
  ffi::Error Fill(const CallAttributes& call);
  ffi::Error FillParameters(std::string_view letters,
                            const std::vector<kiln_launch_tensor>& tensors);
  ffi::Error CheckParameter(char letter, uint32_t index, const kiln_launch_parameter& parameter);
  ffi::Error FillScratch(int32_t result, uint64_t bytes_each, Scratch& scratch) const;
  ffi::Error CheckBuffers(const ffi::RemainingArgs& arguments,
                          const ffi::RemainingRets& results) const;
  ffi::Error SetZeroes(kiln_launch_kernel* kernel, const Place& place,
                       const ffi::RemainingRets& results) const;
  bool HasParameter(size_t result) const {
    const auto number = static_cast<int32_t>(result);
    return number != global_scratch_.result && number != profile_scratch_.result &&
           zeroed_[result] != '-';
  }
  // Errors that name the call.
  ffi::Error Wrong(const std::string& why) const;
  ffi::Error Named(const ffi::Error& error) const;

  std::string name_;
  std::shared_ptr<SharedKernel> kernel_;
  std::string scalars_;
  std::string zeroed_;
  std::array<uint32_t, 3> grid_{};
  // A pointer for each parameter; null for arrays, which come with each execution.
  std::vector<const void*> arguments_;
  struct Array {
    size_t place;                                 // in arguments_
    std::unique_ptr<ArrayDescriptor> descriptor;  // null: passed as a pointer
  };
  std::vector<Array> arrays_;
  Scratch global_scratch_{"global_scratch"};
  Scratch profile_scratch_{"profile_scratch"};
};

}  // namespace kiln::jax
