#include "client/launch/graph_registry.h"

#include <algorithm>

namespace kiln::launch {

StatusOr<uint64_t> GraphRegistry::RecordOf(Stream stream) {
  LAUNCH_ASSIGN_OR_RETURN(const Capture capture, driver_.CaptureOf(stream));
  if (!capture.is_active) {
    return FailedPrecondition("the stream does not capture: say it between begin and end");
  }
  {
    const std::lock_guard lock(mutex_);
    if (records_.contains(capture.id)) return capture.id;
  }
  // Made first: where there is no memory for one, a record would stay that nobody watches.
  auto watch = std::make_unique<Watch>(Watch{this, capture.id});
  Record record{fmt::format("graph {}", capture.id), {}, {}};
  {
    const std::lock_guard lock(mutex_);
    if (!records_.try_emplace(capture.id, std::move(record)).second) return capture.id;
  }
  // Where the driver will not tell, the graph counts as live for good: kernels stay loaded.
  if (driver_.OnGraphDestroyed(capture.graph, OnDestroyed, watch.get()).ok()) {
    static_cast<void>(watch.release());
  }
  return capture.id;
}

void GraphRegistry::OnDestroyed(void* data) {
  const std::unique_ptr<Watch> watch(static_cast<Watch*>(data));
  watch->registry->Forget(watch->id);
}

void GraphRegistry::Forget(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(id);
  if (found == records_.end()) return;
  // What nobody else has open is unloaded at the next load or close: here nothing may be asked of
  // the driver.
  for (const std::shared_ptr<Kernel>& kernel : found->second.kernels) kernel->Unpin();
  records_.erase(found);
}

Status GraphRegistry::NoteLaunch(Stream stream, const std::shared_ptr<Kernel>& kernel,
                                 std::vector<Buffer> buffers) {
  LAUNCH_ASSIGN_OR_RETURN(const uint64_t id, RecordOf(stream));
  const std::lock_guard lock(mutex_);
  Record& record = records_[id];
  if (record.kernels.insert(kernel).second) kernel->Pin();
  for (Buffer& buffer : buffers) record.buffers.try_emplace(buffer.begin, std::move(buffer));
  return Status();
}

Status GraphRegistry::AddBuffer(Stream stream, Buffer buffer) {
  LAUNCH_ASSIGN_OR_RETURN(const uint64_t id, RecordOf(stream));
  const std::lock_guard lock(mutex_);
  Buffer& known = records_[id].buffers[buffer.begin];
  buffer.bytes = std::max(buffer.bytes, known.bytes);
  known = std::move(buffer);
  return Status();
}

Status GraphRegistry::Name(Stream stream, std::string name) {
  LAUNCH_ASSIGN_OR_RETURN(const uint64_t id, RecordOf(stream));
  const std::lock_guard lock(mutex_);
  records_[id].name = std::move(name);
  return Status();
}

Status GraphRegistry::CheckFree(Address begin, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, record] : records_) {
    for (const auto& [address, buffer] : record.buffers) {
      // Neither end need be an address.
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
  const std::lock_guard lock(mutex_);
  return records_.size();
}

}  // namespace kiln::launch
