// What every BlobStore does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "storage/base/limits.h"
#include "tests/conformance/store_subject.h"
#include "tests/testing/artifacts.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class BlobStoreConformance : public StoreConformance {
 protected:
  // Blobs come with an artifact that names them.
  absl::Status Put(const Blob& blob) {
    ArtifactRecord record;
    record.key = MadeKey(blob.digest().Hex());
    record.stages = {{"cubin", blob.digest(), blob.size_bytes()}};
    return store().Put(context_, record, {&blob, 1});
  }
  void ExpectStored(const Blob& blob) {
    const auto found = blobs().GetBlob(context_, blob.digest());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->blob.digest(), blob.digest());
    EXPECT_EQ(found->blob.bytes(), blob.bytes());
  }
};

TEST_P(BlobStoreConformance, UnknownDigestIsNotFound) {
  const auto found = blobs().GetBlob(context_, Digest::Of("never stored"));
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
}

TEST_P(BlobStoreConformance, GetReturnsTheStoredBlob) {
  const Blob blob = Blob::FromBytes("some bytes");
  ASSERT_TRUE(Put(blob).ok());
  ExpectStored(blob);
}

TEST_P(BlobStoreConformance, SecondPutOfABlobChangesNothing) {
  const Blob blob = Blob::FromBytes("some bytes");
  ASSERT_TRUE(Put(blob).ok());
  const uint64_t bytes = store().Stats().stored_bytes;
  ASSERT_TRUE(Put(blob).ok());
  EXPECT_EQ(store().Stats().stored_bytes, bytes);
  ExpectStored(blob);
}

TEST_P(BlobStoreConformance, EmptyBlobCanBeStored) {
  ASSERT_TRUE(Put(Blob()).ok());
  ExpectStored(Blob());
}

TEST_P(BlobStoreConformance, BytesOfEveryValueSurvive) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  const Blob blob = Blob::FromBytes(bytes);
  ASSERT_TRUE(Put(blob).ok());
  ExpectStored(blob);
}

TEST_P(BlobStoreConformance, LargeBlobsThatCompressAndThatDoNot) {
  const Blob dull = Blob::FromBytes(std::string(3 * limits::kMiB, 'a'));
  const Blob noisy = Blob::FromBytes(Noise(7, 3 * limits::kMiB));
  ASSERT_TRUE(Put(dull).ok());
  ASSERT_TRUE(Put(noisy).ok());
  ExpectStored(dull);
  ExpectStored(noisy);
}

TEST_P(BlobStoreConformance, FindMissingNamesTheAbsentInTheOrderAsked) {
  const Blob here = Blob::FromBytes("here");
  ASSERT_TRUE(Put(here).ok());
  const std::vector<Digest> asked = {Digest::Of("z"), here.digest(), Digest::Of("a")};
  const auto missing = blobs().FindMissing(context_, asked);
  ASSERT_TRUE(missing.ok()) << missing.status();
  EXPECT_THAT(*missing, ElementsAre(Digest::Of("z"), Digest::Of("a")));
}

TEST_P(BlobStoreConformance, FindMissingOfNothingIsNothing) {
  const auto missing = blobs().FindMissing(context_, {});
  ASSERT_TRUE(missing.ok()) << missing.status();
  EXPECT_THAT(*missing, IsEmpty());
}

TEST_P(BlobStoreConformance, ManyThreadsPutAndGetTheSameBlobs) {
  std::vector<Blob> shared;
  for (int i = 0; i < 20; ++i) shared.push_back(Blob::FromBytes(Noise(i, 500)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (const Blob& blob : shared) {
        EXPECT_TRUE(Put(blob).ok());
        const auto found = blobs().GetBlob(context_, blob.digest());
        EXPECT_TRUE(found.ok()) << found.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Blob& blob : shared) ExpectStored(blob);
}

INSTANTIATE_TEST_SUITE_P(Stores, BlobStoreConformance, testing::ValuesIn(AllStoreKinds()),
                         StoreKindName);

}  // namespace
}  // namespace kiln
