// The store on the disk: RocksDB, one directory, one process. storage/format.md describes its rows.
//
//   OpenRocksStore ── RocksStore ── RocksState ── RocksChange ── RocksDatabase ── rocksdb::DB
//                     two faces     operations    one batch      statuses
//
// A damaged value is a miss, once DATA_LOSS, and is kept aside. A damaged database is set aside as
// a whole when it is opened (rocks_open.h). A full disk refuses puts and nothing else. The size
// limit is QuotaStore's business, since RocksDB's own (SstFileManager::SetMaxAllowedSpaceUsage) can
// deadlock when a store is opened again.
#pragma once

#include <memory>
#include <string>

#include "storage/base/clock.h"
#include "storage/base/filesystem.h"
#include "storage/store.h"

namespace kiln {

class RocksState;

// Survives the death of the process with every acknowledged put; does not wait for the disk's own
// cache, so a power cut may cost the last seconds. Puts of one store are written one after the
// other; gets run in parallel.
class RocksStore final : public Store {
 public:
  // OpenRocksStore calls this. `filesystem` must outlive the store.
  RocksStore(std::unique_ptr<RocksState> state, std::string path, Filesystem& filesystem);
  ~RocksStore() override;

  BlobStore& blobs() override;
  ArtifactIndex& index() override;
  StoreStats Stats() const override;
  void CountUses(std::span<const UseCount> uses) override;
  absl::StatusOr<uint64_t> CollectUnreferencedBlobs(const CallContext& context) override;

  // Returns when uses are written down and no garbage is being collected. Only tests need to know.
  void WaitUntilIdle();

 private:
  const std::unique_ptr<RocksState> state_;
  const std::string path_;
  Filesystem& filesystem_;
  const std::unique_ptr<BlobStore> blobs_;
  const std::unique_ptr<ArtifactIndex> index_;
};

}  // namespace kiln
