// Records of users' own entries: bytes of a disk, and keys and names that clients choose.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>

#include "storage/base/limits.h"
#include "storage/user_cache_record.h"

namespace kiln {
namespace {

// What is believed is written and read as the same again.
void ReadRecord(std::string_view bytes) {
  const auto record = DecodeUserCacheRecord(bytes);
  if (!record.ok()) return;
  if (record->files.size() > limits::kUserCacheFilesMax) std::abort();
  if (DecodeUserCacheRecord(EncodeUserCacheRecord(*record)).value() != *record) std::abort();
}

Digest RandomDigest(FuzzedDataProvider& data) { return Digest::Of(data.ConsumeBytesAsString(1)); }

void WriteRecord(FuzzedDataProvider& data) {
  UserCacheRecord record;
  record.uid = data.ConsumeIntegral<uint32_t>();
  record.key = data.ConsumeRandomLengthString(2 * limits::kUserCacheKeyBytesMax);
  const auto files = data.ConsumeIntegralInRange<size_t>(0, 2 * limits::kUserCacheFilesMax);
  for (size_t i = 0; i < files; ++i) {
    UserCacheRecord::File file{data.ConsumeRandomLengthString(64), RandomDigest(data),
                               data.ConsumeIntegral<uint64_t>(), std::nullopt};
    if (data.ConsumeBool()) {
      file.output = ArtifactOutput{RandomDigest(data), data.ConsumeRandomLengthString(16)};
    }
    record.files.push_back(std::move(file));
  }
  const std::string document = EncodeUserCacheRecord(record);
  const auto read = DecodeUserCacheRecord(document);
  if (read.ok() != (files <= limits::kUserCacheFilesMax) || (read.ok() && *read != record))
    std::abort();
  // A part of one is none.
  const auto cut = data.ConsumeIntegralInRange<size_t>(0, document.size() - 1);
  if (DecodeUserCacheRecord(std::string_view(document).substr(0, cut)).ok()) std::abort();
  if (!IsUserCacheKey(UserCacheKey(record.uid, record.key))) std::abort();
}

}  // namespace
}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  if (bytes[0] % 2 == 0) {
    kiln::ReadRecord({reinterpret_cast<const char*>(bytes) + 1, size - 1});
  } else {
    FuzzedDataProvider data(bytes + 1, size - 1);
    kiln::WriteRecord(data);
  }
  return 0;
}
