// PlaceOf for XLA on the host, which has no streams: a test says which one a thread's calls run on.
#include <atomic>

#include "client/jax/execution_place.h"

namespace kiln::jax {
namespace {

std::atomic<void*> the_stream{reinterpret_cast<void*>(0x1000)};
std::atomic<int32_t> the_device{0};

}  // namespace

ffi::ErrorOr<Place> PlaceOf(const ffi::Context&) { return Place{the_stream, the_device}; }

}  // namespace kiln::jax

extern "C" __attribute__((visibility("default"))) void kiln_jax_run_on(void* stream,
                                                                       int32_t device) {
  kiln::jax::the_stream = stream;
  kiln::jax::the_device = device;
}
