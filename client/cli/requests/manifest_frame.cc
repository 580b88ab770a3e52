#include "client/cli/requests/manifest_frame.h"

namespace kiln::cli {
namespace {

void Append(std::string& bytes, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>(value >> shift));
}

uint64_t NumberAt(std::string_view bytes, size_t offset) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof value; ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  }
  return value;
}

}  // namespace

std::string ManifestTrailer::Encode() const {
  std::string bytes;
  Append(bytes, index_offset);
  Append(bytes, index_size);
  bytes += index_digest.Bytes();
  bytes += kManifestMagic;
  return bytes;
}

absl::StatusOr<ManifestTrailer> ManifestTrailer::Decode(std::string_view bytes) {
  if (bytes.size() != kSizeBytes || !bytes.ends_with(kManifestMagic)) {
    return DataLoss("the manifest does not end as one: it is cut off or damaged");
  }
  ManifestTrailer trailer{NumberAt(bytes, 0), NumberAt(bytes, sizeof(uint64_t)), {}};
  KILN_ASSIGN_OR_RETURN(trailer.index_digest,
                        Digest::FromBytes(bytes.substr(2 * sizeof(uint64_t), Digest::kSizeBytes)));
  return trailer;
}

}  // namespace kiln::cli
