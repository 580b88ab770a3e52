#include "storage/rocks/rocks_status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace kiln {
namespace {

using absl::StatusCode;

StatusCode CodeOf(const rocksdb::Status& status) { return FromRocks(status, "test").code(); }

rocksdb::Status Failed(int error_number) {
  return rocksdb::Status::IOError("While doing something", std::strerror(error_number));
}

TEST(RocksStatusTest, FullDiskIsRecognizedInEveryWording) {
  for (const rocksdb::Status& status :
       {rocksdb::Status::NoSpace(), Failed(ENOSPC), Failed(EDQUOT),
        // What a write gets that had to wait for a flush.
        rocksdb::Status::Incomplete(rocksdb::Status::NoSpace().ToString())}) {
    EXPECT_TRUE(IsNoSpace(status)) << status.ToString();
    EXPECT_EQ(CodeOf(status), StatusCode::kResourceExhausted) << status.ToString();
  }
}

TEST(RocksStatusTest, MapsOnlyLostDataToDataLoss) {
  EXPECT_EQ(CodeOf(rocksdb::Status::Corruption("checksum")), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(rocksdb::Status::PathNotFound("a table")), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(Failed(EIO)), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(Failed(EISDIR)), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(Failed(EACCES)), StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf(Failed(EROFS)), StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf(Failed(EMFILE)), StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf(rocksdb::Status::Busy()), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(rocksdb::Status::NotSupported("unforeseen")), StatusCode::kInternal);
}

}  // namespace
}  // namespace kiln
