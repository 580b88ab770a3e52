#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/kernel/artifact_document.h"
#include "daemon/messages/text.h"
#include "daemon/rpc/bundle_calls.h"
#include "daemon/rpc/kernel_calls.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/bundle/zstd_frame.h"
#include "storage/lookup_without_use.h"
#include "storage/user_cache_record.h"

namespace kiln {
namespace {

using admin::v1::ExportArtifactsRequest;
using admin::v1::ExportArtifactsResponse;

constexpr size_t kPageRecords = 64;

// Protobuf's wire format of a field with a length: what stands before its content.
std::string FieldHead(int field, size_t content_bytes) {
  std::string head(1, static_cast<char>(field << 3 | 2));
  for (; content_bytes > 0x7f; content_bytes >>= 7) {
    head.push_back(static_cast<char>(content_bytes | 0x80));
  }
  head.push_back(static_cast<char>(content_bytes));
  return head;
}

// The block of one answer, and what became of the artifacts that were offered to it. Writes the
// block's BundleBlock as it goes: a message would copy each stage once more.
class BlockBuilder {
 public:
  BlockBuilder(const RpcDependencies& parts, const CallContext& context,
               ExportArtifactsResponse& response)
      : parts_(parts), context_(context), response_(response) {
    block_.reserve(limits::kBundleBlockBytes);  // or it is copied as it grows
  }

  // False: the block is full without the artifact.
  absl::StatusOr<bool> Add(const FoundArtifact& found) {
    KILN_RETURN_IF_ERROR(StillWanted(context_, SystemClock()));
    const std::string key(found.record->key.Bytes());
    const size_t bytes = BundledBytes(*found.record);
    if (bytes > limits::kBundleBlockBytesMax) {
      response_.add_too_large_keys(key);
      return true;
    }
    if (bytes_ > 0 && bytes_ + bytes > limits::kBundleBlockBytes) return false;
    KILN_ASSIGN_OR_RETURN(const auto stages, Read(*found.record));
    if (stages) {
      Append(found, *stages);
      bytes_ += bytes;
    } else {
      response_.add_missing_keys(key);
    }
    return true;
  }

  // Answers with the block.
  absl::Status Finish() {
    if (artifacts_ == 0) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(std::string frame, CompressFrame(block_));
    // Only a block of one artifact is so large.
    if (block_.size() > limits::kBundleBlockBytesMax ||
        frame.size() > limits::kBundleFrameBytesMax) {
      response_.add_too_large_keys(first_key_);
      return absl::OkStatus();
    }
    response_.set_frame(std::move(frame));
    response_.set_artifacts(artifacts_);
    return absl::OkStatus();
  }

 private:
  // The content of each stage; nothing where one is not there, or damaged. Reads once what
  // artifacts of the block share.
  absl::StatusOr<std::optional<std::vector<Blob>>> Read(const ArtifactRecord& record) {
    std::vector<Blob> stages;
    for (const StageReference& reference : record.stages) {
      const auto known = blobs_.find(reference.digest);
      if (known != blobs_.end()) {
        stages.push_back(known->second);
        continue;
      }
      auto found = parts_.blobs.GetBlob(context_, reference.digest);
      if (absl::IsNotFound(found.status()) || absl::IsDataLoss(found.status())) return std::nullopt;
      KILN_RETURN_IF_ERROR(found.status());
      stages.push_back(blobs_.emplace(reference.digest, std::move(found->blob)).first->second);
    }
    return stages;
  }

  void Append(const FoundArtifact& found, const std::vector<Blob>& stages) {
    const ArtifactRecord& record = *found.record;
    v1::BundleArtifact artifact;  // without its stages
    artifact.set_key(std::string(record.key.Bytes()));
    artifact.set_document(record.document);
    artifact.set_compile_micros(record.compile_micros);
    artifact.set_created_unix_ms(record.created_unix_ms);
    artifact.set_options(ToUtf8(found.usage.options));
    const std::string begin = artifact.SerializeAsString();
    std::vector<std::string> heads;  // of each stage, up to its content
    size_t bytes = begin.size();
    for (size_t i = 0; i < stages.size(); ++i) {
      const std::string& name = record.stages[i].stage;
      const std::string inner =
          FieldHead(v1::BundleStage::kStageFieldNumber, name.size()) + name +
          FieldHead(v1::BundleStage::kContentFieldNumber, stages[i].size_bytes());
      heads.push_back(
          FieldHead(v1::BundleArtifact::kStagesFieldNumber, inner.size() + stages[i].size_bytes()) +
          inner);
      bytes += heads.back().size() + stages[i].size_bytes();
    }
    const std::string head = FieldHead(v1::BundleBlock::kArtifactsFieldNumber, bytes);
    block_.reserve(block_.size() + head.size() + bytes);
    block_ += head;
    block_ += begin;
    for (size_t i = 0; i < stages.size(); ++i) {
      block_ += heads[i];
      block_ += stages[i].bytes();
    }
    if (artifacts_++ == 0) first_key_ = artifact.key();
  }

  const RpcDependencies& parts_;
  const CallContext& context_;
  ExportArtifactsResponse& response_;
  std::string block_;  // its BundleBlock
  std::unordered_map<Digest, Blob, DigestHash> blobs_;
  uint64_t artifacts_ = 0;
  std::string first_key_;
  size_t bytes_ = 0;
};

absl::Status AddNamed(const RpcDependencies& parts, const CallContext& context,
                      const ExportArtifactsRequest& request, BlockBuilder& block,
                      ExportArtifactsResponse& response) {
  for (int i = 0; i < request.keys_size(); ++i) {
    const absl::StatusOr<Digest> key = Digest::FromBytes(request.keys(i));
    if (!key.ok()) return Annotate(key.status(), fmt::format("keys[{}]", i));
    KILN_ASSIGN_OR_RETURN(const auto found, LookupWithoutUse(context, parts.index, *key));
    if (!found || IsUserCacheKey(*key)) {
      response.add_missing_keys(request.keys(i));
      continue;
    }
    KILN_ASSIGN_OR_RETURN(const bool has_room, block.Add(*found));
    if (has_room) continue;
    response.mutable_unanswered_keys()->Assign(request.keys().begin() + i, request.keys().end());
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

bool IsWanted(const RpcDependencies& parts, const FoundArtifact& found,
              const ExportArtifactsRequest& request) {
  const Digest& key = found.record->key;
  if (IsUserCacheKey(key)) return false;
  const std::string& job = request.job();
  if (!job.empty() && found.usage.job != job && !parts.job_keys->HasAsked(job, key)) return false;
  if (request.targets().empty()) return true;
  const auto document = ParseDocument(found.record->document);
  if (!document.ok()) return false;
  const Target& target = document->metadata.target;
  const std::string name = fmt::format("{}:{}", target.backend, target.architecture);
  return std::find(request.targets().begin(), request.targets().end(), name) !=
         request.targets().end();
}

// Nothing for no bytes.
absl::StatusOr<std::optional<Digest>> OptionalKey(const std::string& bytes, const char* field) {
  if (bytes.empty()) return std::nullopt;
  const absl::StatusOr<Digest> key = Digest::FromBytes(bytes);
  if (!key.ok()) return Annotate(key.status(), field);
  return *key;
}

absl::Status AddRange(const RpcDependencies& parts, const CallContext& context,
                      const ExportArtifactsRequest& request, BlockBuilder& block,
                      ExportArtifactsResponse& response) {
  KILN_ASSIGN_OR_RETURN(std::optional<Digest> after, OptionalKey(request.after(), "after"));
  KILN_ASSIGN_OR_RETURN(const std::optional<Digest> last, OptionalKey(request.last(), "last"));
  for (size_t seen = 0; seen < limits::kListScanMax; seen += kPageRecords) {
    KILN_RETURN_IF_ERROR(StillWanted(context, SystemClock()));
    KILN_ASSIGN_OR_RETURN(const auto page, parts.index.Scan(context, after, kPageRecords));
    for (const FoundArtifact& found : page) {
      if (last && found.record->key > *last) return absl::OkStatus();
      if (IsWanted(parts, found, request)) {
        KILN_ASSIGN_OR_RETURN(const bool has_room, block.Add(found));
        if (!has_room) {
          response.set_next(std::string(after->Bytes()));
          return absl::OkStatus();
        }
      }
      after = found.record->key;
    }
    if (page.size() < kPageRecords) return absl::OkStatus();
  }
  response.set_next(std::string(after->Bytes()));
  return absl::OkStatus();
}

}  // namespace

absl::Status ExportArtifacts(const RpcDependencies& parts, const CallContext& context,
                             const ExportArtifactsRequest& request,
                             ExportArtifactsResponse& response) {
  KILN_RETURN_IF_ERROR(CheckCount("keys", request.keys_size(), limits::kBundleKeysMax));
  BlockBuilder block(parts, context, response);
  const auto add = request.keys().empty() ? AddRange : AddNamed;
  KILN_RETURN_IF_ERROR(add(parts, context, request, block, response));
  return block.Finish();
}

}  // namespace kiln
