#include "client/cli/requests/bundle_writer.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <utility>

#include "storage/base/limits.h"
#include "storage/bundle/bundle_format.h"
#include "storage/bundle/zstd_frame.h"

namespace kiln::cli {

absl::StatusOr<std::unique_ptr<BundleWriter>> BundleWriter::Create(std::string path,
                                                                   std::optional<SigningKey> key) {
  std::string unfinished = fmt::format("{}.{}.unfinished", path, ::getpid());
  (void)::unlink(unfinished.c_str());
  // It has sources of all users.
  UniqueFd file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return ErrnoStatus(errno, path);
  std::unique_ptr<BundleWriter> writer(
      new BundleWriter(std::move(path), std::move(unfinished), std::move(file), std::move(key)));
  writer->id_.resize(kBundleIdBytes);
  if (::getrandom(writer->id_.data(), kBundleIdBytes, 0) != ssize_t{kBundleIdBytes}) {
    return ErrnoStatus(errno, "getrandom");
  }
  KILN_RETURN_IF_ERROR(writer->Write(kBundleMagic));
  KILN_RETURN_IF_ERROR(writer->Write(writer->id_));
  return writer;
}

BundleWriter::BundleWriter(std::string path, std::string unfinished, UniqueFd file,
                           std::optional<SigningKey> key)
    : path_(std::move(path)),
      unfinished_(std::move(unfinished)),
      file_(std::move(file)),
      key_(std::move(key)) {}

BundleWriter::~BundleWriter() {
  if (!unfinished_.empty()) ::unlink(unfinished_.c_str());
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
  if (::fsync(file_.get()) != 0 || std::rename(unfinished_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, path_);
  }
  unfinished_.clear();
  return absl::OkStatus();
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
  KILN_RETURN_IF_ERROR(Write(size));
  KILN_RETURN_IF_ERROR(Write(frame));
  return Write(signature);
}

absl::Status BundleWriter::Write(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, path_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace kiln::cli
