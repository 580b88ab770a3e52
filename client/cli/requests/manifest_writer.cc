#include "client/cli/requests/manifest_writer.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "client/cli/requests/manifest_frame.h"
#include "client/cli/requests/request_json.h"
#include "storage/base/limits.h"
#include "storage/bundle/zstd_frame.h"

namespace kiln::cli {
namespace {

std::string Serialized(const google::protobuf::Message& message) {
  return message.SerializeAsString();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ManifestWriter>> ManifestWriter::Create(const std::string& path) {
  // A warm takes keys only from a manifest that nobody else may write.
  KILN_ASSIGN_OR_RETURN(auto file, UnfinishedFile::Create(FollowLinks(path), 0644));
  KILN_RETURN_IF_ERROR(file->Write(kManifestMagic));
  return std::unique_ptr<ManifestWriter>(new ManifestWriter(std::move(file)));
}

absl::Status ManifestWriter::Add(const NamedRequest& named) {
  assert(named.request.ok());
  const Digest digest = RequestDigest(*named.request);
  const auto [known, is_new] = digests_.try_emplace(digest, index_.counts_size());
  if (!is_new) {
    const int at = known->second;
    index_.set_counts(at, index_.counts(at) + named.recorded.count);
    index_.set_compile_micros(at,
                              std::max(index_.compile_micros(at), named.recorded.compile_micros));
    return absl::OkStatus();
  }
  index_.add_counts(named.recorded.count);
  index_.add_compile_micros(named.recorded.compile_micros);

  v1::ManifestRequest& entry = *page_.add_requests();
  v1::CompileRequest& request = *entry.mutable_request();
  request = *named.request;
  request.clear_stages();
  request.clear_cache_policy();
  request.clear_priority();
  request.clear_job();
  request.mutable_source()->set_name(named.name);
  const std::string text = std::move(*request.mutable_source()->mutable_text());
  request.mutable_source()->clear_text();
  const Digest source = Digest::Of(text);
  const auto [place, is_first] = sources_.try_emplace(source);
  if (is_first) {
    KILN_ASSIGN_OR_RETURN(place->second, WriteFrame(text));
  }
  entry.set_source_digest(std::string(source.Bytes()));
  entry.set_source_offset(place->second.offset());
  entry.set_source_size(place->second.size());
  entry.set_digest(std::string(digest.Bytes()));
  for (const std::string& target : named.recorded.same_ir_targets) {
    entry.add_same_ir_targets(target);
  }
  entry.set_refused(named.recorded.is_refused);
  page_bytes_ += entry.ByteSizeLong();
  const bool is_full = page_.requests_size() >= limits::kManifestPageRequestsMax ||
                       page_bytes_ >= limits::kManifestPageBytes;
  return is_full ? WritePage() : absl::OkStatus();
}

absl::Status ManifestWriter::AddOwn(const v1::OwnEntry& entry) {
  if (!own_keys_.insert(entry.key()).second) return absl::OkStatus();
  *own_page_.add_entries() = entry;
  own_page_bytes_ += entry.ByteSizeLong();
  const bool is_full = own_page_.entries_size() >= limits::kManifestPageRequestsMax ||
                       own_page_bytes_ >= limits::kManifestPageBytes;
  return is_full ? WriteOwnPage() : absl::OkStatus();
}

absl::Status ManifestWriter::Finish(const v1::ManifestOrigin& origin) {
  KILN_RETURN_IF_ERROR(WriteEnd(origin));
  KILN_RETURN_IF_ERROR(file_->Sync());
  return file_->Finish();
}

absl::StatusOr<std::string> ManifestWriter::FinishUnnamed(const v1::ManifestOrigin& origin) {
  KILN_RETURN_IF_ERROR(WriteEnd(origin));
  return file_->unfinished_path();
}

absl::Status ManifestWriter::WriteEnd(const v1::ManifestOrigin& origin) {
  if (page_.requests_size() > 0) KILN_RETURN_IF_ERROR(WritePage());
  if (own_page_.entries_size() > 0) KILN_RETURN_IF_ERROR(WriteOwnPage());
  std::vector<Digest> digests;
  for (const auto& [digest, number] : digests_) digests.push_back(digest);
  index_.set_format(kManifestFormat);
  index_.set_digest(std::string(ManifestDigest(std::move(digests)).Bytes()));
  index_.set_sources(sources_.size());
  *index_.mutable_origin() = origin;
  KILN_ASSIGN_OR_RETURN(const std::string frame, CompressFrame(Serialized(index_)));
  const ManifestTrailer trailer{file_->bytes(), frame.size(), Digest::Of(frame)};
  KILN_RETURN_IF_ERROR(file_->Write(frame));
  return file_->Write(trailer.Encode());
}

absl::StatusOr<v1::ManifestPlace> ManifestWriter::WriteFrame(std::string_view content) {
  KILN_ASSIGN_OR_RETURN(const std::string frame, CompressFrame(content));
  v1::ManifestPlace place;
  place.set_offset(file_->bytes());
  place.set_size(frame.size());
  KILN_RETURN_IF_ERROR(file_->Write(frame));
  return place;
}

absl::Status ManifestWriter::WritePage() {
  KILN_ASSIGN_OR_RETURN(*index_.add_pages(), WriteFrame(Serialized(page_)));
  page_.Clear();
  page_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status ManifestWriter::WriteOwnPage() {
  KILN_ASSIGN_OR_RETURN(*index_.add_own_pages(), WriteFrame(Serialized(own_page_)));
  index_.set_own_entries(own_keys_.size());
  own_page_.Clear();
  own_page_bytes_ = 0;
  return absl::OkStatus();
}

Digest ManifestDigest(std::vector<Digest> requests) {
  std::sort(requests.begin(), requests.end());
  DigestBuilder builder;
  for (const Digest& request : requests) builder.Update(request.Bytes());
  return builder.Finish();
}

}  // namespace kiln::cli
