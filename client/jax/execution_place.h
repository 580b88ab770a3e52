// Where XLA wants a call to run.
#pragma once

#include "client/jax/launch_state.h"
#include "xla/ffi/api/ffi.h"

namespace kiln::jax {

// Tests have another one: on the host XLA has no streams.
ffi::ErrorOr<Place> PlaceOf(const ffi::Context& context);

}  // namespace kiln::jax
