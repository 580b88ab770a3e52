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
  void ExpectStored(const Blob& blob) {
    const auto found = blobs().Get(context_, blob.digest());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->blob.digest(), blob.digest());
    EXPECT_EQ(found->blob.bytes(), blob.bytes());
  }
};

TEST_P(BlobStoreConformance, UnknownDigestIsNotFound) {
  const auto found = blobs().Get(context_, Digest::Of("never stored"));
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
}

TEST_P(BlobStoreConformance, WhatWasPutComesBack) {
  const Blob blob = Blob::FromBytes("some bytes");
  ASSERT_TRUE(blobs().Put(context_, blob).ok());
  ExpectStored(blob);
}

TEST_P(BlobStoreConformance, SecondPutOfABlobChangesNothing) {
  const Blob blob = Blob::FromBytes("some bytes");
  ASSERT_TRUE(blobs().Put(context_, blob).ok());
  const uint64_t bytes = store().Stats().stored_bytes;
  ASSERT_TRUE(blobs().Put(context_, blob).ok());
  EXPECT_EQ(store().Stats().stored_bytes, bytes);
  ExpectStored(blob);
}

TEST_P(BlobStoreConformance, EmptyBlobCanBeStored) {
  ASSERT_TRUE(blobs().Put(context_, Blob()).ok());
  ExpectStored(Blob());
}

TEST_P(BlobStoreConformance, BytesOfEveryValueSurvive) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  const Blob blob = Blob::FromBytes(bytes);
  ASSERT_TRUE(blobs().Put(context_, blob).ok());
  ExpectStored(blob);
}

TEST_P(BlobStoreConformance, LargeBlobsThatCompressAndThatDoNot) {
  const Blob dull = Blob::FromBytes(std::string(3 * limits::kMiB, 'a'));
  const Blob noisy = Blob::FromBytes(Noise(7, 3 * limits::kMiB));
  ASSERT_TRUE(blobs().Put(context_, dull).ok());
  ASSERT_TRUE(blobs().Put(context_, noisy).ok());
  ExpectStored(dull);
  ExpectStored(noisy);
}

TEST_P(BlobStoreConformance, FindMissingNamesTheAbsentInTheOrderAsked) {
  const Blob here = Blob::FromBytes("here");
  ASSERT_TRUE(blobs().Put(context_, here).ok());
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

TEST_P(BlobStoreConformance, BlobsThatNoRecordNamesAreCollected) {
  const Blob lone = Blob::FromBytes("lone");
  const MadeArtifact made = MakeArtifact("kept");
  ASSERT_TRUE(blobs().Put(context_, lone).ok());
  ASSERT_TRUE(index().Put(context_, made.record, made.blobs).ok());

  const auto collected = store().CollectUnreferencedBlobs(context_);
  ASSERT_TRUE(collected.ok()) << collected.status();
  EXPECT_EQ(*collected, 1u);
  EXPECT_EQ(blobs().Get(context_, lone.digest()).status().code(), absl::StatusCode::kNotFound);
  ExpectStored(made.blobs[0]);
  ExpectStored(made.blobs[1]);
}

TEST_P(BlobStoreConformance, ManyThreadsPutAndGetTheSameBlobs) {
  std::vector<Blob> shared;
  for (int i = 0; i < 20; ++i) shared.push_back(Blob::FromBytes(Noise(i, 500)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (const Blob& blob : shared) {
        EXPECT_TRUE(blobs().Put(context_, blob).ok());
        const auto found = blobs().Get(context_, blob.digest());
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
