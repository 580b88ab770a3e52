// What is said of artifacts, in the words of the wire.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/kernel.h"
#include "storage/base/lru_cache.h"
#include "storage/base/mutex.h"

namespace kiln {

// Clients ask for a kernel again and again. To build and serialize the messages that describe it
// takes longer than everything else that the daemon does for a hit. So what was
// encoded once is kept together with the values that it says; only where the artifact's are equal
// to those is it used again, since a refreshed artifact has the same key.
//
// Holds at most `count_max` descriptions and about `bytes_max` bytes, forgets what was used least
// recently. Thread-safe; does not block.
class DescriptionMemo {
 public:
  DescriptionMemo(size_t count_max, size_t bytes_max) : known_(count_max, bytes_max) {}

  // Metadata, timings and provenance as fields of a CompileResponse. Never null.
  std::shared_ptr<const std::string> Encode(const Artifact& artifact);

 private:
  struct Description {
    ArtifactDocument values;
    std::string bytes;
  };
  using DescriptionPtr = std::shared_ptr<const Description>;

  DescriptionPtr Find(const Artifact& artifact);

  Mutex mutex_;
  LruCache<DescriptionPtr> known_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
