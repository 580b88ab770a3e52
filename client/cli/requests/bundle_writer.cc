#include "client/cli/requests/bundle_writer.h"

#include <sys/random.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "storage/base/limits.h"
#include "storage/bundle/bundle_format.h"
#include "storage/bundle/zstd_frame.h"

namespace kiln::cli {

absl::StatusOr<std::unique_ptr<BundleWriter>> BundleWriter::Create(const std::string& path,
                                                                   std::optional<SigningKey> key) {
  // It has sources of all users.
  KILN_ASSIGN_OR_RETURN(auto file, UnfinishedFile::Create(FollowLinks(path), 0600));
  std::unique_ptr<BundleWriter> writer(new BundleWriter(std::move(file), std::move(key)));
  writer->id_.resize(kBundleIdBytes);
  if (::getrandom(writer->id_.data(), kBundleIdBytes, 0) != ssize_t{kBundleIdBytes}) {
    return ErrnoStatus(errno, "getrandom");
  }
  KILN_RETURN_IF_ERROR(writer->file_->Write(kBundleMagic));
  KILN_RETURN_IF_ERROR(writer->file_->Write(writer->id_));
  return writer;
}

absl::Status BundleWriter::Add(std::string_view frame, uint64_t artifacts) {
  artifacts_ += artifacts;
  return WriteFrame(frame);
}

absl::Status BundleWriter::AddManifest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string part(limits::kBundleBlockBytes, '\0');
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0) {
    v1::BundleBlock block;
    block.set_manifest(part.substr(0, static_cast<size_t>(file.gcount())));
    KILN_RETURN_IF_ERROR(WriteBlock(block));
  }
  return file.bad() ? ErrnoStatus(errno, path) : absl::OkStatus();
}

absl::Status BundleWriter::Finish() {
  v1::BundleBlock last;
  last.mutable_end()->set_artifacts(artifacts_);
  KILN_RETURN_IF_ERROR(WriteBlock(last));
  KILN_RETURN_IF_ERROR(file_->Sync());
  return file_->Finish();
}

absl::Status BundleWriter::WriteBlock(const v1::BundleBlock& block) {
  KILN_ASSIGN_OR_RETURN(const std::string frame, CompressFrame(block.SerializeAsString()));
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
