#include "client/cli/requests/bundle_writer.h"

#include <sys/random.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "storage/base/limits.h"
#include "storage/bundle/bundle_format.h"
#include "storage/bundle/zstd_frame.h"

namespace kiln::cli {

absl::StatusOr<std::unique_ptr<BundleWriter>> BundleWriter::Create(std::string path,
                                                                   std::optional<SigningKey> key) {
  // It has sources of all users.
  KILN_ASSIGN_OR_RETURN(auto file, UnfinishedFile::Create(std::move(path), 0600));
  std::unique_ptr<BundleWriter> writer(new BundleWriter(std::move(file), std::move(key)));
  writer->id_.resize(kBundleIdBytes);
  if (::getrandom(writer->id_.data(), kBundleIdBytes, 0) != ssize_t{kBundleIdBytes}) {
    return ErrnoStatus(errno, "getrandom");
  }
  KILN_RETURN_IF_ERROR(writer->file_->Write(kBundleMagic));
  KILN_RETURN_IF_ERROR(writer->file_->Write(writer->id_));
  return writer;
}

absl::StatusOr<bool> BundleWriter::Add(v1::BundleArtifact artifact) {
  const size_t bytes = artifact.ByteSizeLong();
  if (block_bytes_ > 0 && block_bytes_ + bytes > limits::kBundleBlockBytes) {
    KILN_RETURN_IF_ERROR(WriteBlock());
  }
  *block_.add_artifacts() = std::move(artifact);
  block_bytes_ += bytes;
  ++artifacts_;
  if (bytes <= limits::kBundleBlockBytes) return true;
  // It is alone in its block, and may still be too large.
  const absl::Status written = WriteBlock();
  if (!absl::IsOutOfRange(written)) return written.ok() ? absl::StatusOr<bool>(true) : written;
  --artifacts_;
  return false;
}

absl::Status BundleWriter::AddManifest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string part(limits::kBundleBlockBytes, '\0');
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0) {
    if (block_bytes_ > 0) KILN_RETURN_IF_ERROR(WriteBlock());
    block_.set_manifest(part.substr(0, static_cast<size_t>(file.gcount())));
    block_bytes_ = block_.manifest().size();
  }
  return file.bad() ? ErrnoStatus(errno, path) : absl::OkStatus();
}

absl::Status BundleWriter::Finish() {
  if (block_bytes_ > 0) KILN_RETURN_IF_ERROR(WriteBlock());
  block_.mutable_end()->set_artifacts(artifacts_);
  KILN_RETURN_IF_ERROR(WriteBlock());
  KILN_RETURN_IF_ERROR(file_->Sync());
  return file_->Finish();
}

// OUT_OF_RANGE: it is too large. Empties the block either way.
absl::Status BundleWriter::WriteBlock() {
  const std::string content = block_.SerializeAsString();
  block_.Clear();
  block_bytes_ = 0;
  if (content.size() > limits::kBundleBlockBytesMax) return absl::OutOfRangeError("content");
  KILN_ASSIGN_OR_RETURN(const std::string frame, CompressFrame(content));
  if (frame.size() > limits::kBundleFrameBytesMax) return absl::OutOfRangeError("frame");
  return WriteFrame(frame);
}

absl::Status BundleWriter::WriteFrame(std::string_view frame) {
  std::string signature(kSignatureBytes, '\0');
  if (key_) {
    KILN_ASSIGN_OR_RETURN(signature, key_->Sign(SignedBytes(id_, number_, frame)));
  }
  ++number_;
  std::string size;
  for (int shift = 0; shift < 32; shift += 8) {
    size.push_back(static_cast<char>(frame.size() >> shift));
  }
  KILN_RETURN_IF_ERROR(file_->Write(size));
  KILN_RETURN_IF_ERROR(file_->Write(frame));
  return file_->Write(signature);
}

}  // namespace kiln::cli
