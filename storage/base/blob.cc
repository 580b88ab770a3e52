#include "storage/base/blob.h"

#include <utility>

namespace kiln {

Blob::Blob() : Blob(FromBytes("")) {}

Blob Blob::FromBytes(std::string bytes) {
  const Digest digest = Digest::Of(bytes);
  return Blob(std::make_shared<const Content>(Content{std::move(bytes), digest}));
}

absl::StatusOr<Blob> Blob::Verify(std::string bytes, const Digest& expected) {
  Blob blob = FromBytes(std::move(bytes));
  if (blob.digest() != expected) {
    return DataLoss("{} bytes should have digest {}, have {}", blob.size_bytes(), expected.Hex(),
                    blob.digest().Hex());
  }
  return blob;
}

}  // namespace kiln
