#include "storage/rocks/rocks_walk.h"

#include <cstdint>
#include <utility>

#include "storage/base/log.h"

namespace kiln {
namespace {

// The first key of the next 65,536th of the key space. Empty: there is none.
std::string NextStretch(std::string_view key) {
  const auto high = static_cast<uint8_t>(key.size() > 0 ? key[0] : 0);
  const auto low = static_cast<uint8_t>(key.size() > 1 ? key[1] : 0);
  const uint32_t next = (uint32_t{high} << 8 | low) + 1;
  if (next > 0xffff) return "";
  return {static_cast<char>(next >> 8), static_cast<char>(next)};
}

}  // namespace

RocksWalk::RocksWalk(std::unique_ptr<rocksdb::Iterator> rows, std::string_view from)
    : rows_(std::move(rows)), position_(from) {
  rows_->Seek(rocksdb::Slice(position_));
  StepOverDamage();
}

void RocksWalk::Next() {
  position_.assign(key());
  rows_->Next();
  StepOverDamage();
}

void RocksWalk::StepOverDamage() {
  while (!rows_->Valid() && !rows_->status().ok()) {
    if (!skipped_) {
      LogWarning("part of the store is unreadable", {{"error", rows_->status().ToString()}});
    }
    skipped_ = true;
    position_ = NextStretch(position_);
    if (position_.empty()) return;
    rows_->Seek(rocksdb::Slice(position_));
  }
}

}  // namespace kiln
