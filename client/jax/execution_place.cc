#include "client/jax/execution_place.h"

namespace kiln::jax {

ffi::ErrorOr<Place> PlaceOf(const ffi::Context& context) {
  const auto stream = context.get<ffi::PlatformStream<void*>>();
  if (stream.has_error()) return ffi::Unexpected(stream.error());
  const auto device = context.get<ffi::DeviceOrdinal>();
  if (device.has_error()) return ffi::Unexpected(device.error());
  return Place{*stream, *device};
}

}  // namespace kiln::jax
