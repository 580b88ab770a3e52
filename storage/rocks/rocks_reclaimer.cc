#include "storage/rocks/rocks_reclaimer.h"

#include <algorithm>

#include "storage/base/log.h"
#include "storage/rocks/rocks_options.h"

namespace kiln {
namespace {

// Each takes a quarter of what is left and adds what it keeps, so four may not reach every file.
constexpr int kQuartersMax = 8;

}  // namespace

RocksReclaimer::RocksReclaimer(RocksDatabase& database, uint64_t expected_bytes)
    : database_(database),
      // Garbage of less than a few files is indistinguishable from blobs not written out yet.
      garbage_bytes_max_(std::max(expected_bytes / 5, 4 * RocksBlobFileBytes(expected_bytes))) {}

uint64_t RocksReclaimer::GarbageBytes() const {
  const uint64_t files = database_.BlobFileBytes();
  // Live blobs may not be written out yet, so this can come out low, never high.
  return files - std::min<uint64_t>(files, live_bytes_);
}

void RocksReclaimer::Consider(uint64_t live_bytes) {
  live_bytes_ = live_bytes;
  if (GarbageBytes() > garbage_bytes_max_) work_.Request();
}

void RocksReclaimer::WaitForSpace() {
  if (GarbageBytes() > garbage_bytes_max_ * 3 / 2) work_.WaitUntilIdle();
}

void RocksReclaimer::Reclaim() {
  // The oldest files have most of the garbage. A quarter at a time, since live blobs are on the
  // disk twice until their old files are removed.
  for (int quarter = 0; quarter < kQuartersMax; ++quarter) {
    if (stopping_ || GarbageBytes() <= garbage_bytes_max_) return;
    const absl::Status status = database_.CollectGarbage(0.25, stopping_);
    if (!status.ok()) {
      if (!stopping_) LogWarning("could not give back disk space", {{"error", Message(status)}});
      return;
    }
  }
}

}  // namespace kiln
