// The kernels and buffers of captured graphs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "client/launch/driver/driver.h"
#include "client/launch/kernel.h"
#include "storage/base/mutex.h"

namespace kiln::launch {

// A graph replays launches with the captured addresses. So its kernels must stay loaded, and its
// buffers allocated, as long as the graph or one of its instances lives. The driver calls back when
// they are destroyed.
//
// Thread-safe. Must outlive the driver, whose thread calls back.
class GraphRegistry {
 public:
  explicit GraphRegistry(Driver& driver) : driver_(driver) {}

  struct Buffer {
    Address begin = 0;
    uint64_t bytes = 0;  // at least 1
    std::string name;    // "argument x_ptr of kernel softmax (key 0123456789ab)", "weights"
  };

  // Notes a launch for the graph that its stream captures into: the kernel, and the buffers of the
  // arguments. Those are pointers; each eight bytes of a tensor map, which holds its tensor's
  // address; and, for a plain kernel, whose binary does not tell pointers from numbers, each eight
  // bytes that the driver knows as an address. Does not look into memory, nor into parameters of
  // unknown type. The length of a buffer is unknown, so each counts as its first byte.
  Status NoteLaunch(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call);
  // Adds a buffer to that graph. FAILED_PRECONDITION: the stream does not capture.
  Status AddBuffer(Stream stream, Buffer buffer);
  // The graph's name in messages (default: "graph 7").
  Status Name(Stream stream, std::string name);

  // FAILED_PRECONDITION: a live graph refers to part of it; the message names buffer and graph.
  Status CheckFree(Address begin, uint64_t bytes) const;

  size_t live_graphs() const;

 private:
  struct Record {
    std::string name;
    std::set<std::shared_ptr<Kernel>> kernels;
    std::map<Address, Buffer> buffers;  // by begin; the longest buffer of each begin
  };
  struct Watch {
    GraphRegistry* registry;
    uint64_t id;
  };

  // The id of the capture. Makes its record.
  StatusOr<uint64_t> RecordOf(Stream stream);
  static void OnDestroyed(void* watch);

  Driver& driver_;
  mutable Mutex mutex_;
  std::map<uint64_t, Record> records_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln::launch
