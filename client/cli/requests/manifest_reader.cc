#include "client/cli/requests/manifest_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <utility>

#include "client/cli/requests/manifest_frame.h"
#include "storage/base/limits.h"
#include "storage/bundle/zstd_frame.h"

namespace kiln::cli {
namespace {

absl::StatusOr<std::string> ReadAt(int file, uint64_t offset, uint64_t size) {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::pread(file, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read the manifest");
    if (got == 0) return DataLoss("the manifest is cut off");
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace

bool ManifestReader::IsManifest(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, kManifestMagic.size()> begin{};
  return file && ::pread(file.get(), begin.data(), begin.size(), 0) == ssize_t{begin.size()} &&
         std::string_view(begin.data(), begin.size()) == kManifestMagic;
}

absl::StatusOr<ManifestReader> ManifestReader::Open(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return ErrnoStatus(errno, path);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size < kManifestMagic.size() + ManifestTrailer::kSizeBytes) {
    return DataLoss("the manifest is cut off");
  }
  const uint64_t end = size - ManifestTrailer::kSizeBytes;
  KILN_ASSIGN_OR_RETURN(const std::string last,
                        ReadAt(file.get(), end, ManifestTrailer::kSizeBytes));
  KILN_ASSIGN_OR_RETURN(const ManifestTrailer trailer, ManifestTrailer::Decode(last));
  if (trailer.index_offset > end || trailer.index_size != end - trailer.index_offset ||
      trailer.index_size > limits::kManifestIndexBytesMax) {
    return DataLoss("the manifest is damaged: its index is not where its end says");
  }
  KILN_ASSIGN_OR_RETURN(const std::string frame,
                        ReadAt(file.get(), trailer.index_offset, trailer.index_size));
  if (Digest::Of(frame) != trailer.index_digest) return DataLoss("the manifest's index is damaged");
  KILN_ASSIGN_OR_RETURN(const std::string content,
                        DecompressFrame(frame, limits::kManifestIndexBytesMax));
  auto index = std::make_unique<v1::ManifestIndex>();
  if (!index->ParseFromString(content) || index->counts_size() != index->compile_micros_size()) {
    return DataLoss("the manifest's index is damaged");
  }
  if (index->format() > kManifestFormat) {
    return FailedPrecondition("the manifest has format {}, and this kiln reads formats up to {}",
                              index->format(), kManifestFormat);
  }
  return ManifestReader(std::move(file), std::move(index));
}

ManifestReader::ManifestReader(UniqueFd file, std::unique_ptr<v1::ManifestIndex> index)
    : file_(std::move(file)), index_(std::move(index)) {}

std::optional<NamedRequest> ManifestReader::Next() {
  const int number = next_;
  if (next_in_page_ == page_.requests_size()) {
    if (next_page_ == index_->pages_size()) return std::nullopt;
    if (absl::Status status = ReadPage(); !status.ok()) {
      next_page_ = index_->pages_size();
      page_.Clear();
      next_in_page_ = 0;
      return NamedRequest{fmt::format("request-{}", number + 1), 0, std::move(status)};
    }
  }
  v1::ManifestRequest& entry = *page_.mutable_requests(next_in_page_++);
  ++next_;
  NamedRequest named{entry.request().source().name(), static_cast<uint64_t>(number) + 1,
                     RequestOf(entry)};
  named.recorded.count = index_->counts(number);
  named.recorded.compile_micros = index_->compile_micros(number);
  named.recorded.same_ir_targets.assign(entry.same_ir_targets().begin(),
                                        entry.same_ir_targets().end());
  // Another recording of the same request may have compiled it.
  named.recorded.is_refused = entry.refused() && named.recorded.compile_micros == 0;
  return named;
}

absl::StatusOr<std::string> ManifestReader::ReadFrame(uint64_t offset, uint64_t size,
                                                      size_t bytes_max) const {
  if (size > ZSTD_compressBound(bytes_max)) return DataLoss("the manifest is damaged");
  KILN_ASSIGN_OR_RETURN(const std::string frame, ReadAt(file_.get(), offset, size));
  absl::StatusOr<std::string> content = DecompressFrame(frame, bytes_max);
  if (!content.ok()) return Annotate(content.status(), "the manifest");
  return content;
}

absl::Status ManifestReader::ReadPage() {
  const v1::ManifestPlace& place = index_->pages(next_page_++);
  KILN_ASSIGN_OR_RETURN(const std::string content,
                        ReadFrame(place.offset(), place.size(), limits::kManifestPageBytesMax));
  next_in_page_ = 0;
  const bool is_page = page_.ParseFromString(content) && page_.requests_size() > 0 &&
                       page_.requests_size() <= index_->counts_size() - next_;
  return is_page ? absl::OkStatus() : DataLoss("a page of the manifest is damaged");
}

absl::StatusOr<v1::ManifestOwnPage> ManifestReader::OwnPage(int number) const {
  assert(number >= 0 && number < index_->own_pages_size());
  const v1::ManifestPlace& place = index_->own_pages(number);
  KILN_ASSIGN_OR_RETURN(const std::string content,
                        ReadFrame(place.offset(), place.size(), limits::kManifestPageBytesMax));
  v1::ManifestOwnPage page;
  if (!page.ParseFromString(content)) return DataLoss("a page of the manifest is damaged");
  return page;
}

absl::StatusOr<v1::CompileRequest> ManifestReader::RequestOf(v1::ManifestRequest& entry) const {
  KILN_ASSIGN_OR_RETURN(std::string text, ReadFrame(entry.source_offset(), entry.source_size(),
                                                    limits::kSourceBytesMax));
  if (Digest::Of(text).Bytes() != entry.source_digest()) {
    return DataLoss("the source is not the one that was recorded: the manifest is damaged");
  }
  v1::CompileRequest request;
  request.Swap(entry.mutable_request());
  *request.mutable_source()->mutable_text() = std::move(text);
  return request;
}

}  // namespace kiln::cli
