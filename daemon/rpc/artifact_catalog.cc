#include "daemon/rpc/artifact_catalog.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/kernel/artifact_document.h"
#include "daemon/messages/text.h"
#include "daemon/messages/translate.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/lookup_without_use.h"
#include "storage/user_cache_record.h"

namespace kiln {
namespace {

constexpr size_t kHexDigits = 2 * Digest::kSizeBytes;
constexpr size_t kPrefixDigitsMin = 4;

// "name" or "name==version" of a toolchain, "backend" or "backend:architecture" of a target.
bool IsOrBeginsWith(std::string_view text, std::string_view wanted, char separator) {
  return wanted.empty() || text == wanted ||
         (text.starts_with(wanted) && text[wanted.size()] == separator);
}

bool HasFilter(const admin::v1::ListArtifactsRequest& request) {
  return request.has_uid() || !request.job().empty() || !request.kernel().empty() ||
         !request.target().empty() || !request.toolchain().empty();
}

// Without reading its document.
bool MayMatch(const Digest& key, const ArtifactUsage& usage,
              const admin::v1::ListArtifactsRequest& request) {
  const bool is_of_user = !request.has_uid() || IsUserCacheKey(key) || usage.uid == request.uid();
  const bool is_of_job = usage.job == request.job() && !IsUserCacheKey(key);
  return is_of_user && (request.job().empty() || is_of_job);
}

bool Matches(const admin::v1::ArtifactSummary& artifact,
             const admin::v1::ListArtifactsRequest& request) {
  const std::string target = artifact.target().backend() + ":" + artifact.target().architecture();
  // MayMatch has seen whose artifact it is. An entry that says nobody's uid is damaged.
  const bool is_artifact = !IsUserCacheKey(*Digest::FromBytes(artifact.key()));
  const bool is_of_user = artifact.has_own_uid() && artifact.own_uid() == request.uid();
  return (!request.has_uid() || is_artifact || is_of_user) &&
         artifact.name().find(request.kernel()) != std::string::npos &&
         IsOrBeginsWith(target, request.target(), ':') &&
         IsOrBeginsWith(artifact.toolchain(), request.toolchain(), '=');
}

using StoredAt = std::pair<int64_t, Digest>;

// The newest that somebody waited for and the request's filters leave, the newest first. Of one
// user's, who may be anybody, looks at as many as a search for the nearest does.
absl::StatusOr<std::vector<StoredAt>> NewestOf(ArtifactIndex& index, const CallContext& context,
                                               const admin::v1::ListArtifactsRequest& request) {
  std::vector<StoredAt> newest;  // a heap, the oldest first
  std::optional<Digest> after;
  size_t seen = 0, records_read = 0;
  while (!request.has_uid() || seen < limits::kNearestUsagesMax) {
    KILN_RETURN_IF_ERROR(StillWanted(context, SystemClock()));
    KILN_ASSIGN_OR_RETURN(const auto page, index.ScanUsages(context, after, limits::kListScanMax));
    if (page.empty()) break;
    seen += page.size();
    after = page.back().key;
    for (const auto& [key, usage] : page) {
      if (usage.is_ahead || IsUserCacheKey(key) || !MayMatch(key, usage, request)) continue;
      StoredAt stored(usage.created_unix_ms, key);
      if (!usage.HasName()) {
        if (request.has_uid() && ++records_read > limits::kNearestRecordsMax) continue;
        const auto found = LookupWithoutUse(context, index, key);
        if (found.ok() && *found) stored.first = (*found)->record->created_unix_ms;
      }
      newest.push_back(stored);
      std::push_heap(newest.begin(), newest.end(), std::greater<>());
      if (newest.size() <= request.newest()) continue;
      std::pop_heap(newest.begin(), newest.end(), std::greater<>());
      newest.pop_back();
    }
  }
  std::sort_heap(newest.begin(), newest.end(), std::greater<>());
  return newest;
}

absl::Status ListNewest(ArtifactIndex& index, const CallContext& context,
                        const admin::v1::ListArtifactsRequest& request,
                        admin::v1::ListArtifactsResponse& response) {
  admin::v1::ListArtifactsRequest others = request;
  others.clear_newest();
  others.clear_uid();
  others.clear_job();
  if (others.ByteSizeLong() > 0 || request.newest() > limits::kListPageMax) {
    return InvalidArgument("newest: at most {}, and with no other fields than uid and job",
                           limits::kListPageMax);
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<StoredAt> newest, NewestOf(index, context, request));
  for (const auto& [time, key] : newest) {
    KILN_ASSIGN_OR_RETURN(const auto found, LookupWithoutUse(context, index, key));
    if (found) Summarize(*found, *response.add_artifacts());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KeyRange> KeysBeginningWith(std::string_view hex_prefix) {
  std::string low(hex_prefix);
  std::string high(hex_prefix);
  if (low.size() < kHexDigits) {
    low.append(kHexDigits - low.size(), '0');
    high.append(kHexDigits - high.size(), 'f');
  }
  const auto first = Digest::FromHex(low);
  const auto last = Digest::FromHex(high);
  if (!first.ok() || !last.ok()) {
    return InvalidArgument(
        "key_prefix \"{}\": a key is written in the digits 0 to 9 and a to f, at most {} of them",
        Excerpt(hex_prefix), kHexDigits);
  }
  return KeyRange{*first, *last};
}

absl::StatusOr<ArtifactPage> ReadPage(ArtifactIndex& index, const CallContext& context,
                                      const KeyRange& range, const std::optional<Digest>& after,
                                      size_t limit) {
  std::optional<Digest> begin = KeyBefore(range.first);
  if (after && (!begin || *after > *begin)) begin = after;
  ArtifactPage page;
  // One more than asked for tells whether there is another page.
  KILN_ASSIGN_OR_RETURN(page.artifacts, index.Scan(context, begin, limit + 1));
  const auto end =
      std::find_if(page.artifacts.begin(), page.artifacts.end(),
                   [&](const FoundArtifact& found) { return found.record->key > range.last; });
  page.artifacts.erase(end, page.artifacts.end());
  page.has_more = page.artifacts.size() > limit;
  if (page.has_more) page.artifacts.resize(limit);
  return page;
}

absl::Status ListArtifacts(ArtifactIndex& index, const CallContext& context,
                           const admin::v1::ListArtifactsRequest& request,
                           admin::v1::ListArtifactsResponse& response) {
  if (request.newest() > 0) return ListNewest(index, context, request, response);
  KILN_ASSIGN_OR_RETURN(const KeyRange range, KeysBeginningWith(request.key_prefix()));
  std::optional<Digest> after;
  if (!request.after().empty()) {
    const auto parsed = Digest::FromBytes(request.after());
    if (!parsed.ok()) return Annotate(parsed.status(), "after");
    after = *parsed;
  }
  const size_t limit = request.limit() == 0
                           ? limits::kListPageMax
                           : std::min<size_t>(request.limit(), limits::kListPageMax);
  const size_t read = HasFilter(request) ? limits::kListPageMax : limit;
  for (size_t seen = 0; seen < limits::kListScanMax; seen += read) {
    KILN_ASSIGN_OR_RETURN(const ArtifactPage page, ReadPage(index, context, range, after, read));
    for (const FoundArtifact& found : page.artifacts) {
      after = found.record->key;
      if (!MayMatch(*after, found.usage, request)) continue;
      admin::v1::ArtifactSummary& artifact = *response.add_artifacts();
      Summarize(found, artifact);
      if (!Matches(artifact, request)) response.mutable_artifacts()->RemoveLast();
      if (static_cast<size_t>(response.artifacts_size()) < limit) continue;
      const bool is_last = !page.has_more && &found == &page.artifacts.back();
      if (!is_last) response.set_next(std::string(after->Bytes()));
      return absl::OkStatus();
    }
    if (!page.has_more) return absl::OkStatus();
  }
  response.set_next(std::string(after->Bytes()));
  return absl::OkStatus();
}

absl::StatusOr<FoundArtifact> FindByPrefix(ArtifactIndex& index, const CallContext& context,
                                           std::string_view hex_prefix) {
  if (hex_prefix.size() < kPrefixDigitsMin) {
    return InvalidArgument("key_prefix \"{}\": give at least {} hex digits of the key", hex_prefix,
                           kPrefixDigitsMin);
  }
  KILN_ASSIGN_OR_RETURN(const KeyRange range, KeysBeginningWith(hex_prefix));
  KILN_ASSIGN_OR_RETURN(ArtifactPage page, ReadPage(index, context, range, std::nullopt, 1));
  if (page.artifacts.empty()) {
    return NotFound("no artifact has a key that begins with {}", hex_prefix);
  }
  if (page.has_more) {
    return InvalidArgument("several keys begin with {}; give more digits", hex_prefix);
  }
  return std::move(page.artifacts.front());
}

absl::Status CheckIsArtifact(const Digest& key) {
  if (!IsUserCacheKey(key)) return absl::OkStatus();
  return FailedPrecondition("{} is an entry of a user's own namespace, no artifact",
                            key.ShortHex());
}

void Summarize(const FoundArtifact& found, admin::v1::ArtifactSummary& out) {
  const ArtifactRecord& record = *found.record;
  out.set_key(std::string(record.key.Bytes()));
  if (IsUserCacheKey(record.key)) {
    if (const auto own = DecodeUserCacheRecord(record.document); own.ok())
      out.set_own_uid(own->uid);
  } else if (const auto document = ParseDocument(record.document); document.ok()) {
    out.set_name(ToUtf8(document->metadata.name));
    ToProto(document->metadata.target, *out.mutable_target());
    out.set_toolchain(document->provenance.toolchain);
    out.set_compile_micros(record.compile_micros);
  }
  uint64_t bytes = 0;
  for (const StageReference& stage : record.stages) bytes += stage.size_bytes;
  out.set_size_bytes(bytes);
  out.set_created_unix_ms(record.created_unix_ms);
  out.set_last_use_unix_ms(found.usage.last_use_unix_ms);
  out.set_hits(found.usage.hits);
  out.set_pinned(found.usage.pinned);
  if (found.usage.uid) out.set_uid(*found.usage.uid);
  out.set_job(ToUtf8(found.usage.job));
  out.set_ahead(found.usage.is_ahead);
  out.set_options(ToUtf8(found.usage.options));
}

}  // namespace kiln
