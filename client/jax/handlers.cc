// What the library exports: XLA's handlers, and what registers them.
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>

#include "client/jax/call_attributes.h"
#include "client/jax/execution_place.h"
#include "client/jax/launch_state.h"
#include "client/launch/kiln_launch.h"
#include "xla/ffi/api/ffi.h"

#define KILN_JAX_API __attribute__((visibility("default")))

namespace kiln::jax {
namespace {

std::atomic<kiln_launch_runtime*> the_runtime{nullptr};
std::atomic<uint64_t> executions{0};
std::atomic<uint64_t> failures{0};
thread_local std::string last_error;

// What a handler returns, with failures counted; XLA does not take exceptions.
template <typename Result, typename Body>
Result Counted(Body body) {
  const auto fail = [](const char* why) -> Result {
    return ffi::Unexpected(ffi::Error::Internal(std::string("kiln_launch: ") + why));
  };
  Result result = [&]() -> Result {
    try {
      return body();
    } catch (const std::exception& exception) {
      return fail(exception.what());
    }
  }();
  if (result.has_error()) failures.fetch_add(1, std::memory_order_relaxed);
  return result;
}

using Made = ffi::ErrorOr<std::unique_ptr<LaunchState>>;

Made Instantiate(ffi::Dictionary attributes) {
  return Counted<Made>([&]() -> Made {
    kiln_launch_runtime* runtime = the_runtime.load(std::memory_order_acquire);
    if (runtime == nullptr) {
      return ffi::Unexpected(ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                                        "kiln_launch: no driver is open: call "
                                        "kiln.jax.register(\"cuda\") first"));
    }
    const ffi::ErrorOr<CallAttributes> call = ReadAttributes(attributes);
    if (call.has_error()) return ffi::Unexpected(call.error());
    return LaunchState::Make(runtime, *call);
  });
}

ffi::Error Execute(ffi::Context context, LaunchState* state, ffi::RemainingArgs arguments,
                   ffi::RemainingRets results, ffi::Dictionary) {
  executions.fetch_add(1, std::memory_order_relaxed);
  const auto run = [&]() -> ffi::Error {
    try {
      const ffi::ErrorOr<Place> place = PlaceOf(context);
      return place.has_error() ? place.error() : state->Execute(*place, arguments, results);
    } catch (const std::exception& exception) {
      return ffi::Error::Internal(std::string("kiln_launch: ") + exception.what());
    }
  };
  ffi::Error error = run();
  if (error.failure()) failures.fetch_add(1, std::memory_order_relaxed);
  return error;
}

}  // namespace
}  // namespace kiln::jax

using namespace kiln::jax;  // NOLINT: this file is their interface

#pragma GCC visibility push(default)
// All attributes as a dictionary: XLA then does not count them.
XLA_FFI_DEFINE_HANDLER_SYMBOL(KilnJaxInstantiate, Instantiate, ffi::Ffi::BindInstantiate().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(KilnJaxExecute, Execute,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::Context>()
                                  .Ctx<ffi::State<LaunchState>>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs(),
                              {ffi::Traits::kCmdBufferCompatible});
#pragma GCC visibility pop

extern "C" {

// For jax.ffi.register_ffi_type.
KILN_JAX_API const void* kiln_jax_type_id(void) { return &LaunchState::id; }
KILN_JAX_API const void* kiln_jax_type_info(void) {
  static const XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<LaunchState>();
  return &info;
}

// Describes the last kiln_jax_open that failed on this thread.
KILN_JAX_API const char* kiln_jax_error(void) { return last_error.c_str(); }

// Opens the driver that calls launch through: "cuda" or "hip"; `driver_path` as in
// kiln_launch_open_options, NULL: the backend's own. 0: open, also when it was open before. A
// process has one.
KILN_JAX_API int kiln_jax_open(const char* backend, const char* driver_path) {
  kiln_launch_open_options options{};
  options.size = sizeof options;
  options.backend = backend;
  options.driver_path = driver_path;
  kiln_launch_runtime* runtime = nullptr;
  if (const auto code = kiln_launch_open(&options, &runtime); code != 0) {
    last_error = kiln_launch_error();
    return code;
  }
  kiln_launch_runtime* before = nullptr;
  if (the_runtime.compare_exchange_strong(before, runtime) || before == runtime) return 0;
  last_error = "another driver is open in this process";
  return KILN_LAUNCH_FAILED_PRECONDITION;
}

// Counts of this process: instantiations, live states, executions, launches under capture (by
// whomever), open kernels, failed instantiations and executions.
KILN_JAX_API void kiln_jax_counts(uint64_t out[6]) {
  kiln_launch_stats stats{};
  stats.size = sizeof stats;
  if (kiln_launch_runtime* runtime = the_runtime.load(); runtime != nullptr) {
    kiln_launch_get_stats(runtime, &stats);
  }
  const std::array<uint64_t, 6> counts = {LaunchState::made(), LaunchState::live(),
                                          executions.load(),   stats.captured_launches,
                                          stats.kernels_open,  failures.load()};
  std::memcpy(out, counts.data(), sizeof counts);
}

}  // extern "C"
