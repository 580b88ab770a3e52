// Going through the rows of a store that may be damaged in places.
#pragma once

#include <rocksdb/iterator.h>

#include <memory>
#include <string>
#include <string_view>

namespace kiln {

// Goes through the rows of a family in order, as they were when its iterator was made. A damaged
// block does not end it: it is stepped over, and the log says so.
//
// Not thread-safe. Reads the disk.
class RocksWalk {
 public:
  // Keys spread evenly, as digests do, are what the steps over damage are made for.
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
