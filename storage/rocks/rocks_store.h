// The store on the disk: RocksDB, one directory, one process. storage/format.md describes its rows.
//
//   OpenRocksStore ── RocksStore ── RocksState ── RocksChange ── RocksDatabase ── rocksdb::DB
//                     interfaces    operations    one batch      statuses
//
// A damaged value is DATA_LOSS once, then a miss; it is quarantined. A damaged database is set
// aside as a whole when it is opened (rocks_open.h). On a full disk only puts fail. QuotaStore
// limits the size, since RocksDB's own limit (SstFileManager::SetMaxAllowedSpaceUsage) can deadlock
// when a store is opened again.
#pragma once

#include <memory>
#include <string>

#include "storage/base/clock.h"
#include "storage/base/filesystem.h"
#include "storage/store.h"

namespace kiln {

class RocksState;

// Every acknowledged put survives the death of the process. Puts do not wait for the disk's own
// cache, so a power cut may lose the last seconds. Puts are written one after the other; gets run
// in parallel.
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

  // Returns when uses are written and no garbage is collected. For tests.
  void WaitUntilIdle();

 private:
  const std::unique_ptr<RocksState> state_;
  const std::string path_;
  Filesystem& filesystem_;
  const std::unique_ptr<BlobStore> blobs_;
  const std::unique_ptr<ArtifactIndex> index_;
};

}  // namespace kiln
