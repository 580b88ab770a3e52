#include "client/launch/captured_buffers.h"

#include <cstring>
#include <string>

#include "client/launch/artifact/parameter_type.h"

namespace kiln::launch {
namespace {

// The words of a value that may be addresses.
std::vector<Address> AddressesIn(Driver& driver, const void* value, size_t bytes) {
  std::vector<Address> addresses;
  for (size_t at = 0; at + sizeof(Address) <= bytes; at += sizeof(Address)) {
    Address word = 0;
    std::memcpy(&word, static_cast<const char*>(value) + at, sizeof word);
    if (word != 0 && driver.DeviceOf(word).ok()) addresses.push_back(word);
  }
  return addresses;
}

std::vector<Address> AddressesOf(Driver& driver, const KernelMetadata& metadata,
                                 const Parameter& parameter, const void* value) {
  if (IsPointer(parameter.type)) {
    Address address = 0;
    std::memcpy(&address, value, sizeof address);
    return address == 0 ? std::vector<Address>() : std::vector<Address>{address};
  }
  if (metadata.IsTriton() && !IsTensorMap(parameter.type)) return {};
  return AddressesIn(driver, value, BytesOfType(parameter.type));
}

}  // namespace

std::vector<GraphRegistry::Buffer> CapturedBuffers(Driver& driver, const Kernel& kernel,
                                                   const LaunchCall& call) {
  const KernelMetadata& metadata = kernel.artifact().metadata();
  std::vector<GraphRegistry::Buffer> buffers;
  for (size_t i = 0; i < metadata.parameters.size(); ++i) {
    const Parameter& parameter = metadata.parameters[i];
    const std::string name = parameter.name.empty() ? std::to_string(i) : parameter.name;
    for (const Address address : AddressesOf(driver, metadata, parameter, call.arguments[i])) {
      buffers.push_back(
          {address, 1, fmt::format("argument {} of {}", name, kernel.artifact().label())});
    }
  }
  return buffers;
}

}  // namespace kiln::launch
