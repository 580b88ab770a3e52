// What captured graphs refer to.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/launch/driver/driver.h"
#include "client/launch/kernel.h"

namespace kiln::launch {

// A graph replays launches with the addresses they were captured with, so their kernels must stay
// loaded and their buffers allocated for as long as the graph, or anything instantiated from it, is
// there. The driver tells when it is gone: nobody has to say so here.
//
// Thread-safe. Never destroyed before the driver: its callbacks come on a thread of the driver.
class GraphRegistry {
 public:
  explicit GraphRegistry(Driver& driver) : driver_(driver) {}

  struct Buffer {
    Address begin = 0;
    uint64_t bytes = 0;  // at least 1
    std::string name;    // "argument x_ptr of kernel softmax (key 0123456789ab)", "weights"
  };

  // That the graph which `stream` captures into launches the kernel on these buffers.
  Status NoteLaunch(Stream stream, const std::shared_ptr<Kernel>& kernel,
                    std::vector<Buffer> buffers);
  // That it refers to a buffer besides. FAILED_PRECONDITION: the stream does not capture.
  Status AddBuffer(Stream stream, Buffer buffer);
  // For messages; "graph 7" by itself.
  Status Name(Stream stream, std::string name);

  // FAILED_PRECONDITION, with buffer and graph named: a live graph refers to a part of it.
  Status CheckFree(Address begin, uint64_t bytes) const;

  size_t live_graphs() const;

 private:
  struct Record {
    std::string name;
    std::set<std::shared_ptr<Kernel>> kernels;
    std::map<Address, Buffer> buffers;  // by their begin; the longest of those that share it
  };
  struct Watch {
    GraphRegistry* registry;
    uint64_t id;
  };

  // The id of the capture, with a record for it.
  StatusOr<uint64_t> RecordOf(Stream stream);
  static void OnDestroyed(void* watch);
  void Forget(uint64_t id);

  Driver& driver_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Record> records_;
};

}  // namespace kiln::launch
