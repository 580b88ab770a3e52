// GetOwn and PutOwn: entries of the caller's own namespace.
#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/rpc/kernel_calls.h"
#include "storage/base/limits.h"
#include "storage/base/shared_uid.h"

namespace kiln {
namespace {

absl::StatusOr<UserCacheFile> FromProto(const v1::OwnFile& file) {
  UserCacheFile own{file.name(), file.content(), std::nullopt, Digest()};
  if (!file.digest().empty()) {
    KILN_ASSIGN_OR_RETURN(own.digest, Digest::FromBytes(file.digest()));
  }
  if (!file.has_output()) return own;
  if (file.digest().empty() || !file.content().empty()) {
    return InvalidArgument("an artifact's output is named by its digest, without its content");
  }
  KILN_ASSIGN_OR_RETURN(const Digest artifact, Digest::FromBytes(file.output().key()));
  own.output = ArtifactOutput{artifact, file.output().stage()};
  return own;
}

absl::Status PutOwnEntry(UserCache& own, const CallContext& context, const v1::OwnEntry& entry) {
  std::vector<UserCacheFile> files;
  for (int i = 0; i < entry.files_size(); ++i) {
    auto file = FromProto(entry.files(i));
    if (!file.ok()) return Annotate(file.status(), fmt::format("files[{}]", i));
    files.push_back(*std::move(file));
  }
  return own.Put(context, entry.key(), std::move(files));
}

void ToProto(std::vector<UserCacheFile> files, v1::OwnEntry& out) {
  for (UserCacheFile& file : files) {
    v1::OwnFile& converted = *out.add_files();
    converted.set_name(std::move(file.name));
    converted.set_digest(std::string(file.digest.Bytes()));
    converted.set_content(std::move(file.content));
    if (!file.output) continue;
    converted.mutable_output()->set_key(std::string(file.output->artifact.Bytes()));
    converted.mutable_output()->set_stage(std::move(file.output->stage));
  }
}

// Whose entries a call is about.
template <class Request>
CallContext ContextOf(const RpcDependencies& parts, const CallContext& context,
                      const Request& request) {
  CallContext of_owner = context;
  const bool is_shared = request.tunings() && parts.tuning_users.contains(context.principal.uid);
  if (is_shared) of_owner.principal.uid = kTuningsUid;
  of_owner.job = request.job();
  return of_owner;
}

// The job has the entry, and the artifacts that its files are outputs of.
void NoteFound(const RpcDependencies& parts, const CallContext& context, uid_t owner,
               const v1::GetOwnRequest& request, std::string_view key,
               const std::vector<UserCacheFile>& files) {
  const auto note = [&](const Digest& id) {
    parts.job_keys->Note(context.principal.uid, request.job(), id, /*has_source=*/false);
  };
  note(UserCacheKey(owner, key));
  for (const UserCacheFile& file : files) {
    if (file.output) note(file.output->artifact);
  }
}

uint64_t CostOf(const v1::PutOwnRequest& request) {
  uint64_t bytes = 0;
  for (const v1::OwnEntry& entry : request.entries()) {
    bytes += std::max<uint64_t>(entry.ByteSizeLong(), limits::kUserCachePutEntryBytesMin);
  }
  return bytes;
}

uint64_t ContentBytes(const std::vector<UserCacheFile>& files) {
  uint64_t bytes = 0;
  for (const UserCacheFile& file : files) bytes += file.content.size();
  return bytes;
}

absl::Status GetEntries(const RpcDependencies& parts, const CallContext& context,
                        const v1::GetOwnRequest& request, v1::GetOwnResponse& response) {
  KILN_RETURN_IF_ERROR(CheckIsOneUser(parts.shared_uid, context.principal));
  KILN_RETURN_IF_ERROR(
      CheckCount("keys", request.keys_size(), limits::kUserCacheEntriesPerCallMax));
  const CallContext of_owner = ContextOf(parts, context, request);
  uint64_t bytes = 0;
  for (int i = 0; i < request.keys_size(); ++i) {
    // The first always finds room: an entry is smaller than that.
    if (bytes + limits::kUserCacheEntryBytesMax > limits::kUserCacheReplyBytesMax) {
      response.add_unanswered_keys(request.keys(i));
      continue;
    }
    KILN_RETURN_IF_ERROR(StillWanted(context, SystemClock()));
    if (request.keys_only()) {
      if (parts.own.Has(of_owner, request.keys(i)))
        response.add_entries()->set_key(request.keys(i));
      continue;
    }
    auto files = parts.own.Get(of_owner, request.keys(i));
    if (absl::IsNotFound(files.status())) continue;
    if (!files.ok()) return Annotate(files.status(), fmt::format("keys[{}]", i));
    bytes += ContentBytes(*files);
    NoteFound(parts, context, of_owner.principal.uid, request, request.keys(i), *files);
    v1::OwnEntry& entry = *response.add_entries();
    entry.set_key(request.keys(i));
    ToProto(*std::move(files), entry);
  }
  return absl::OkStatus();
}

// Stores nothing where the user's rate does not allow all of it.
absl::Status PutEntries(const RpcDependencies& parts, const CallContext& context,
                        const v1::PutOwnRequest& request) {
  KILN_RETURN_IF_ERROR(CheckIsOneUser(parts.shared_uid, context.principal));
  KILN_RETURN_IF_ERROR(
      CheckCount("entries", request.entries_size(), limits::kUserCacheEntriesPerCallMax));
  KILN_RETURN_IF_ERROR(parts.user_rate_limit.Spend(context.principal.uid, CostOf(request)));
  const CallContext of_owner = ContextOf(parts, context, request);
  for (int i = 0; i < request.entries_size(); ++i) {
    KILN_RETURN_IF_ERROR(StillWanted(context, SystemClock()));
    const absl::Status status = PutOwnEntry(parts.own, of_owner, request.entries(i));
    if (!status.ok()) return Annotate(status, fmt::format("entries[{}]", i));
    parts.job_keys->Note(context.principal.uid, request.job(),
                         UserCacheKey(of_owner.principal.uid, request.entries(i).key()),
                         /*has_source=*/false);
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<v1::OwnEntry> OwnEntryOf(const RpcDependencies& parts, const CallContext& context,
                                       const ArtifactRecord& stored) {
  const auto record = DecodeUserCacheRecord(stored.document);
  if (!record.ok()) return std::nullopt;
  const bool is_shared =
      record->uid == kTuningsUid && parts.tuning_users.contains(context.principal.uid);
  if (record->uid != context.principal.uid && !is_shared) return std::nullopt;
  auto files = parts.own.ReadContents(context, stored);
  if (!files.ok()) return std::nullopt;
  v1::OwnEntry entry;
  entry.set_key(record->key);
  ToProto(*std::move(files), entry);
  return entry;
}

void GetOwn(const RpcDependencies& parts, const CallContext& context,
            const v1::GetOwnRequest& request, v1::GetOwnResponse& response, Answered answered) {
  parts.executor.Run([&, context, answered = std::move(answered)] {
    answered(GetEntries(parts, context, request, response));
  });
}

void PutOwn(const RpcDependencies& parts, const CallContext& context,
            const v1::PutOwnRequest& request, v1::PutOwnResponse&, Answered answered) {
  parts.executor.Run([&, context, answered = std::move(answered)] {
    answered(PutEntries(parts, context, request));
  });
}

}  // namespace kiln
