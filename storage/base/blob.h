// Immutable bytes that carry their digest. A Blob cannot exist whose bytes do not match its digest,
// so no tier of storage can forget the check (after Buildbarn's Buffer).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// A cheap-to-copy handle; copies share the bytes. Thread-safe, since nothing changes after
// construction.
class Blob {
 public:
  // The empty byte string.
  Blob();

  // Computes the digest: for bytes just compiled, or just received from a worker.
  static Blob FromBytes(std::string bytes);

  // For bytes read from a disk or a network. DATA_LOSS where they do not match the digest.
  static absl::StatusOr<Blob> Verify(std::string bytes, const Digest& expected);

  const Digest& digest() const { return content_->digest; }
  std::string_view bytes() const { return content_->bytes; }
  size_t size_bytes() const { return content_->bytes.size(); }

 private:
  struct Content {
    std::string bytes;
    Digest digest;
  };
  explicit Blob(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

  std::shared_ptr<const Content> content_;
};

}  // namespace kiln
