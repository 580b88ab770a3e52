#include "client/cli/commands/warm_own_entries.h"

#include <optional>
#include <utility>

#include "client/cli/commands/errors.h"
#include "client/cli/output/format.h"
#include "client/cli/requests/own_entries.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

OwnEntries KindOf(const v1::OwnEntry& entry) {
  return IsTuning(entry) ? OwnEntries::kTunings : OwnEntries::kOfThisUser;
}

// The first entry is put last, and only after all others. So where it is there, all were put.
class OwnEntryPutter {
 public:
  OwnEntryPutter(Client& client, const CallOptions& call) : client_(client), call_(call) {}

  // ALREADY_EXISTS: all were put before.
  absl::Status Add(const v1::OwnEntry& entry) {
    if (!first_) {
      first_ = entry;
      KILN_ASSIGN_OR_RETURN(const auto there, client_.GetOwn({entry.key()}, call_, KindOf(entry)));
      return there.empty() ? absl::OkStatus() : AlreadyExists("all were put before");
    }
    const size_t bytes = entry.ByteSizeLong();
    const bool is_other_kind = !batch_.empty() && KindOf(batch_.front()) != KindOf(entry);
    const bool is_full = batch_.size() == limits::kUserCacheEntriesPerCallMax ||
                         batch_bytes_ + bytes > limits::kUserCacheEntryBytesMax;
    if (is_full || is_other_kind) KILN_RETURN_IF_ERROR(PutBatch());
    batch_.push_back(entry);
    batch_bytes_ += bytes;
    return absl::OkStatus();
  }

  absl::Status Finish() {
    KILN_RETURN_IF_ERROR(PutBatch());
    if (first_ && has_all_) KILN_RETURN_IF_ERROR(Put({*first_}));
    return absl::OkStatus();
  }

  uint64_t put() const { return put_; }

 private:
  absl::Status PutBatch() {
    const std::vector<v1::OwnEntry> batch = std::exchange(batch_, {});
    batch_bytes_ = 0;
    if (batch.empty()) return absl::OkStatus();
    absl::Status status = Put(batch);
    if (!absl::IsNotFound(status)) return status;
    for (const v1::OwnEntry& each : batch) KILN_RETURN_IF_ERROR(PutIfStored(each));
    return absl::OkStatus();
  }

  // The artifact of an entry may have failed to compile, or was not compiled yet.
  absl::Status PutIfStored(const v1::OwnEntry& entry) {
    const absl::Status status = Put({entry});
    if (!absl::IsNotFound(status)) return status;
    has_all_ = false;
    return absl::OkStatus();
  }

  absl::Status Put(const std::vector<v1::OwnEntry>& entries) {
    KILN_RETURN_IF_ERROR(client_.PutOwn(entries, call_, KindOf(entries.front())));
    put_ += entries.size();
    return absl::OkStatus();
  }

  Client& client_;
  const CallOptions call_;
  std::optional<v1::OwnEntry> first_;
  std::vector<v1::OwnEntry> batch_;
  size_t batch_bytes_ = 0;
  bool has_all_ = true;
  uint64_t put_ = 0;
};

absl::StatusOr<uint64_t> Warm(Client& client, const CallOptions& call, const std::string& path) {
  OwnEntryPutter entries(client, call);
  absl::Status status =
      ForEachOwnEntry(path, [&](const v1::OwnEntry& entry) { return entries.Add(entry); });
  if (absl::IsAlreadyExists(status)) return 0;
  KILN_RETURN_IF_ERROR(status);
  status = entries.Finish();
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return entries.put();
}

}  // namespace

void WarmOwnEntries(Client& client, Session& session, const std::vector<std::string>& files) {
  Console& console = session.console();
  for (const std::string& path : files) {
    if (!IsTrusted(path)) continue;
    const absl::StatusOr<uint64_t> put = Warm(client, session.Call(), path);
    if (!put.ok()) {
      console.err << fmt::format("kiln: lookup keys of {} were not put: {}\n", Printable(path),
                                 Summarize(put.status()));
    } else if (*put > 0 && !session.json()) {
      console.err << fmt::format("{} for your jobs, of {}\n", FormatCount(*put, "recorded key"),
                                 Printable(path));
    }
  }
}

}  // namespace kiln::cli
