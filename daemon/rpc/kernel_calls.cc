#include "daemon/rpc/kernel_calls.h"

#include <algorithm>
#include <chrono>
#include <unordered_set>
#include <utility>
#include <vector>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/nearest_artifact.h"
#include "daemon/messages/text.h"
#include "daemon/messages/translate.h"
#include "daemon/rpc/compile_start.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"
#include "storage/lookup_without_use.h"
#include "storage/user_cache_record.h"

namespace kiln {
namespace {

absl::Status LookUp(const RpcDependencies& parts, const CallContext& context,
                    const std::string& bytes, v1::LookupResponse::Entry& out) {
  KILN_ASSIGN_OR_RETURN(const Digest key, Digest::FromBytes(bytes));
  out.set_key(bytes);
  if (IsUserCacheKey(key)) return absl::OkStatus();  // no artifact, and perhaps not the caller's
  const absl::StatusOr<FoundArtifact> found = parts.index.Get(context, key);
  // What is damaged or of a newer daemon is a miss for a compile, so it is one here.
  const bool is_unreadable =
      absl::IsDataLoss(found.status()) || absl::IsFailedPrecondition(found.status());
  if (absl::IsNotFound(found.status()) || is_unreadable) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(found.status());
  const auto document = ParseDocument(found->record->document);
  if (!document.ok()) return absl::OkStatus();
  out.set_found(true);
  out.set_tier(ToProto(found->tier));
  DescribeTo(*document, out);
  for (const StageReference& stage : found->record->stages) {
    if (stage.stage != kRequestStage) ToProto(stage, *out.add_stages());
  }
  return absl::OkStatus();
}

constexpr size_t kEntryHeadBytesMax = 8;  // what stands before an entry on the wire

// No answer is larger than what clients receive, and no caller has the daemon build one.
absl::Status LookUpAll(const RpcDependencies& parts, const CallContext& context,
                       const v1::LookupRequest& request, v1::LookupResponse& response) {
  KILN_RETURN_IF_ERROR(CheckCount("keys", request.keys_size(), limits::kLookupKeysMax));
  size_t bytes = 0;
  for (int i = 0; i < request.keys_size(); ++i) {
    KILN_RETURN_IF_ERROR(StillWanted(context, SystemClock()));
    v1::LookupResponse::Entry& entry = *response.add_entries();
    const absl::Status status = LookUp(parts, context, request.keys(i), entry);
    if (!status.ok()) return Annotate(status, fmt::format("keys[{}]", i));
    bytes += entry.ByteSizeLong() + kEntryHeadBytesMax;
    if (bytes <= limits::kClientReceiveBytesMax) continue;
    return ResourceExhausted(
        "the answer for the first {} keys has more than {} bytes: ask for fewer keys at once",
        i + 1, limits::kClientReceiveBytesMax);
  }
  return absl::OkStatus();
}

void ToProto(const RequestDifference& difference, v1::RequestDifference& out) {
  out.set_field(ToUtf8(difference.field));
  out.set_asked(ToUtf8(difference.asked));
  out.set_stored(ToUtf8(difference.stored));
}

absl::Status AnswerNearest(const RpcDependencies& parts, const CallContext& context,
                           const v1::NearestRequest& request, v1::NearestResponse& response) {
  KILN_ASSIGN_OR_RETURN(const auto asked, Prepare(parts, v1::CompileRequest(request.request())));
  KILN_ASSIGN_OR_RETURN(const NearestSearch search,
                        FindNearest(context, SystemClock(), parts.index, parts.blobs, *asked->job));
  response.set_records(search.records);
  response.set_has_seen_all(search.has_seen_all);
  if (!search.nearest) return absl::OkStatus();
  const NearestArtifact& nearest = *search.nearest;
  response.set_key(std::string(nearest.key.Bytes()));
  response.set_toolchain(ToUtf8(nearest.toolchain));
  ToProto(nearest.target, *response.mutable_target());
  response.set_created_unix_ms(nearest.created_unix_ms);
  for (const auto& each : nearest.differences) ToProto(each, *response.add_differences());
  const Toolchain& toolchain = *asked->job->toolchain;
  // Two versions differ in every file.
  const bool is_same = toolchain.fingerprint == nearest.toolchain_fingerprint;
  if (is_same || toolchain.Name() != nearest.toolchain) return absl::OkStatus();
  for (const auto& each :
       parts.compare_toolchains(toolchain.fingerprint, nearest.toolchain_fingerprint)) {
    ToProto(each, *response.add_differences());
  }
  return absl::OkStatus();
}

// What a client tells counts for its own user alone.
void CountTold(Activity& activity, uid_t uid, const v1::ToldHits& told, bool is_warm) {
  constexpr auto kSavedMax = std::chrono::microseconds(limits::kCompileTimeDefault).count();
  const uint64_t count = std::min(told.count(), limits::kToldHitCountMax);
  const uint64_t saved = std::min(told.saved_micros(), count * uint64_t{kSavedMax});
  const uint64_t bytes = std::min(told.bytes(), count * limits::kToldHitBytesMax);
  if (count == 0) return;
  if (is_warm) {
    activity.Note(uid, told.job(), ActivityKind::kWarmed, {count});
  } else if (told.place() == v1::ToldHits::HOT) {
    activity.Note(uid, told.job(), ActivityKind::kHot, {count, saved, bytes});
  } else if (told.place() == v1::ToldHits::OWN) {
    activity.Note(uid, told.job(), ActivityKind::kOwn, {count, saved, bytes});
  }
}

// Leases what a warm found in the hot directory. Blocks for a local disk read where it is new.
// False as LeaseWarmed.
bool LeaseFound(const RpcDependencies& parts, uid_t uid, const Digest& key) {
  if (parts.leases.IsOff() || parts.leases.Renew(key)) return true;
  const auto found = LookupWithoutUse({}, parts.index, key);
  if (!found.ok() || !*found) return true;
  uint64_t bytes = 0;
  for (const StageReference& stage : (*found)->record->stages) bytes += stage.size_bytes;
  return LeaseWarmed(parts, uid, key, bytes);
}

bool IsOfOneJob(const v1::NoteUsesRequest& request) {
  return std::ranges::all_of(request.hits(), [&](const v1::ToldHits& told) {
    return told.job() == request.hits(0).job();
  });
}

absl::Status CountUses(const RpcDependencies& parts, uid_t uid, const v1::NoteUsesRequest& request,
                       v1::NoteUsesResponse& response) {
  static Counter hot_uses("hot_uses", "");  // described where the daemon is put together
  KILN_RETURN_IF_ERROR(CheckCount("keys", request.keys_size(), limits::kLookupKeysMax));
  KILN_RETURN_IF_ERROR(CheckCount("hits", request.hits_size(), limits::kToldHitsMax));
  std::unordered_set<Digest, DigestHash> keys;
  for (int i = 0; i < request.keys_size(); ++i) {
    const absl::StatusOr<Digest> key = Digest::FromBytes(request.keys(i));
    if (!key.ok()) return Annotate(key.status(), fmt::format("keys[{}]", i));
    keys.insert(*key);
  }
  std::vector<UseCount> uses;
  const int64_t now_unix_ms = SystemClock().UnixMillis();
  for (const Digest& key : keys) {
    // Costs no look into the store, whoever asks and however much.
    if (!parts.is_published(key)) continue;
    // What a warm finds saves nobody a compile, but it is in use.
    uses.push_back({key, request.is_warm() ? uint64_t{0} : uint64_t{1}, now_unix_ms});
    parts.own.NoteUse(key);  // nothing, where it is an artifact's
  }
  parts.store.CountUses(uses);
  if (request.is_warm()) {
    for (const UseCount& use : uses) {
      if (!LeaseFound(parts, uid, use.key)) response.add_not_leased(std::string(use.key.Bytes()));
    }
  }
  // A process is of one job, mostly. Otherwise nobody knows whose uses these are.
  if (!request.is_warm() && !request.hits().empty() && IsOfOneJob(request)) {
    for (const UseCount& use : uses) {
      parts.job_keys->Note(uid, request.hits(0).job(), use.key, /*has_source=*/false);
    }
  }
  hot_uses.Add(uses.size());
  for (const v1::ToldHits& told : request.hits()) {
    CountTold(parts.activity, uid, told, request.is_warm());
  }
  if (request.hits().empty() && !uses.empty()) {
    parts.activity.Note(uid, "", ActivityKind::kHot, {uses.size()});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Parse(std::string_view bytes, google::protobuf::MessageLite& request) {
  if (request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
  return InvalidArgument("the message is not a {}, or has text that is not UTF-8",
                         request.GetTypeName());
}

bool LeaseWarmed(const RpcDependencies& parts, uid_t uid, const Digest& key, uint64_t bytes) {
  // What their users keep for themselves has a share of its own.
  if (IsUserCacheKey(key) || parts.leases.IsOff()) return true;
  return parts.leases.Lease(uid, key, bytes);
}

absl::Status CheckCount(std::string_view field, int count, size_t count_max) {
  if (static_cast<size_t>(count) <= count_max) return absl::OkStatus();
  return InvalidArgument("{} has {} entries; at most {} are taken at once: send them in batches",
                         field, count, count_max);
}

void Lookup(const RpcDependencies& parts, const CallContext& context,
            const v1::LookupRequest& request, v1::LookupResponse& response, Answered answered) {
  // How clients ask for a sign of life: never behind anybody's work.
  if (request.keys().empty()) return answered(absl::OkStatus());
  parts.executor.Run([&, context, answered = std::move(answered)] {
    answered(LookUpAll(parts, context, request, response));
  });
}

void Nearest(const RpcDependencies& parts, const CallContext& context,
             const v1::NearestRequest& request, v1::NearestResponse& response, Answered answered) {
  if (parts.searches.fetch_add(1) >= limits::kNearestSearchesMax) {
    --parts.searches;
    return answered(ResourceExhausted("{} searches for a nearest artifact are under way already",
                                      limits::kNearestSearchesMax));
  }
  parts.executor.Run([&, context, answered = std::move(answered)] {
    const absl::Status status = AnswerNearest(parts, context, request, response);
    --parts.searches;
    answered(status);
  });
}

void Fetch(const RpcDependencies& parts, const CallContext& context,
           const v1::FetchRequest& request, std::function<void(absl::StatusOr<Blob>)> answered) {
  const absl::StatusOr<Digest> digest = Digest::FromBytes(request.digest());
  if (!digest.ok()) return answered(Annotate(digest.status(), "digest"));
  parts.executor.Run([&parts, context, digest = *digest, answered = std::move(answered)] {
    if (absl::Status wanted = StillWanted(context, SystemClock()); !wanted.ok()) {
      return answered(std::move(wanted));
    }
    absl::StatusOr<FoundBlob> found = parts.blobs.GetBlob(context, digest);
    if (!found.ok()) return answered(found.status());
    answered(std::move(found->blob));
  });
}

void ListToolchains(const RpcDependencies& parts, const CallContext&,
                    const v1::ListToolchainsRequest&, v1::ListToolchainsResponse& response,
                    Answered answered) {
  ToProto(parts.catalog, response);
  answered(absl::OkStatus());
}

void NoteUses(const RpcDependencies& parts, const CallContext& context,
              const v1::NoteUsesRequest& request, v1::NoteUsesResponse& response,
              Answered answered) {
  parts.executor.Run([&, uid = context.principal.uid, answered = std::move(answered)] {
    answered(CountUses(parts, uid, request, response));
  });
}

}  // namespace kiln
