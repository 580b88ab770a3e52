// Iterates over rows of a store with damaged places.
#pragma once

#include <rocksdb/iterator.h>

#include <memory>
#include <string>
#include <string_view>

namespace kiln {

// Iterates over the rows of a family in order, as of the creation of the iterator. Skips damaged
// blocks and logs that.
//
// Not thread-safe. Reads the disk.
class RocksWalk {
 public:
  // Skipping damage assumes that keys are spread evenly, as digests are.
  explicit RocksWalk(std::unique_ptr<rocksdb::Iterator> rows, std::string_view from = "");

  bool Valid() const { return rows_->Valid(); }
  void Next();
  std::string_view key() const { return rows_->key().ToStringView(); }
  std::string_view value() const { return rows_->value().ToStringView(); }

 private:
  void StepOverDamage();

  const std::unique_ptr<rocksdb::Iterator> rows_;
  std::string position_;
  bool skipped_ = false;
};

}  // namespace kiln
