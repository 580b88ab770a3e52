#include "client/launch/graph_registry.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "client/launch/artifact/parameter_type.h"

namespace kiln::launch {
namespace {

// Each eight bytes of a value that the driver knows as an address.
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

// Only makes calls of the driver that are allowed under capture.
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

}  // namespace

StatusOr<uint64_t> GraphRegistry::RecordOf(Stream stream) {
  LAUNCH_ASSIGN_OR_RETURN(const Capture capture, driver_.CaptureOf(stream));
  if (!capture.is_active) {
    return FailedPrecondition("the stream does not capture: say it between begin and end");
  }
  {
    const MutexLock lock(mutex_);
    const auto [record, is_new] = records_.try_emplace(capture.id);
    if (!is_new) return capture.id;
    record->second.name = fmt::format("graph {}", capture.id);
  }
  auto watch = std::make_unique<Watch>(Watch{this, capture.id});
  // If the driver refuses, the graph counts as live for good, and its kernels stay loaded.
  if (driver_.OnGraphDestroyed(capture.graph, OnDestroyed, watch.get()).ok()) {
    static_cast<void>(watch.release());
  }
  return capture.id;
}

void GraphRegistry::OnDestroyed(void* data) {
  const std::unique_ptr<Watch> watch(static_cast<Watch*>(data));
  GraphRegistry& registry = *watch->registry;
  const MutexLock lock(registry.mutex_);
  const auto found = registry.records_.find(watch->id);
  if (found == registry.records_.end()) return;
  // Kernels that are no longer open are unloaded at the next load or close: this thread must not
  // call the driver.
  for (const std::shared_ptr<Kernel>& kernel : found->second.kernels) kernel->Unpin();
  registry.records_.erase(found);
}

Status GraphRegistry::NoteLaunch(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call) {
  LAUNCH_ASSIGN_OR_RETURN(const uint64_t id, RecordOf(call.stream));
  std::vector<Buffer> buffers = CapturedBuffers(driver_, *kernel, call);
  const MutexLock lock(mutex_);
  Record& record = records_[id];
  if (record.kernels.insert(kernel).second) kernel->Pin();
  for (Buffer& buffer : buffers) record.buffers.try_emplace(buffer.begin, std::move(buffer));
  return Status();
}

Status GraphRegistry::AddBuffer(Stream stream, Buffer buffer) {
  LAUNCH_ASSIGN_OR_RETURN(const uint64_t id, RecordOf(stream));
  const MutexLock lock(mutex_);
  Buffer& known = records_[id].buffers[buffer.begin];
  buffer.bytes = std::max(buffer.bytes, known.bytes);
  known = std::move(buffer);
  return Status();
}

Status GraphRegistry::Name(Stream stream, std::string name) {
  LAUNCH_ASSIGN_OR_RETURN(const uint64_t id, RecordOf(stream));
  const MutexLock lock(mutex_);
  records_[id].name = std::move(name);
  return Status();
}

Status GraphRegistry::CheckFree(Address begin, uint64_t bytes) const {
  const MutexLock lock(mutex_);
  for (const auto& [id, record] : records_) {
    for (const auto& [address, buffer] : record.buffers) {
      // Compares by subtraction: the end of either range may wrap around.
      const bool overlaps =
          address < begin ? begin - address < buffer.bytes : address - begin < bytes;
      if (!overlaps) continue;
      return FailedPrecondition(
          "{:#x} must not be freed: {} (at {:#x}) is used by {}, which is "
          "still there; destroy that first",
          begin, buffer.name, address, record.name);
    }
  }
  return Status();
}

size_t GraphRegistry::live_graphs() const {
  const MutexLock lock(mutex_);
  return records_.size();
}

}  // namespace kiln::launch
