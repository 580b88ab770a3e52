#include "client/cli/commands/warm_own_entries.h"

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/commands/errors.h"
#include "client/cli/output/format.h"
#include "client/cli/requests/own_entries.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

OwnEntries KindOf(const v1::OwnEntry& entry) {
  return IsTuning(entry) ? OwnEntries::kTunings : OwnEntries::kOfThisUser;
}

// Puts entries in batches of one kind.
class OwnEntryPutter {
 public:
  // `only_absent`: passes over those whose keys have entries, which a job may have renewed.
  OwnEntryPutter(Client& client, const CallOptions& call, bool only_absent)
      : client_(client), call_(call), only_absent_(only_absent) {}

  absl::Status Add(const v1::OwnEntry& entry) {
    const size_t bytes = entry.ByteSizeLong();
    const bool is_other_kind = !batch_.empty() && KindOf(batch_.front()) != KindOf(entry);
    const bool is_full = batch_.size() == limits::kUserCacheEntriesPerCallMax ||
                         batch_bytes_ + bytes > limits::kUserCacheEntryBytesMax;
    if (is_full || is_other_kind) KILN_RETURN_IF_ERROR(PutBatch());
    batch_.push_back(entry);
    batch_bytes_ += bytes;
    return absl::OkStatus();
  }

  absl::Status PutBatch() {
    std::vector<v1::OwnEntry> batch = std::exchange(batch_, {});
    batch_bytes_ = 0;
    if (only_absent_) KILN_RETURN_IF_ERROR(EraseThere(batch));
    if (batch.empty()) return absl::OkStatus();
    absl::Status status = Put(batch);
    if (!absl::IsNotFound(status)) return status;
    for (const v1::OwnEntry& each : batch) KILN_RETURN_IF_ERROR(PutIfStored(each));
    return absl::OkStatus();
  }

  uint64_t put() const { return put_; }
  uint64_t left_out() const { return left_out_; }

 private:
  absl::Status EraseThere(std::vector<v1::OwnEntry>& batch) {
    if (batch.empty()) return absl::OkStatus();
    std::vector<std::string> keys;
    for (const v1::OwnEntry& each : batch) keys.push_back(each.key());
    KILN_ASSIGN_OR_RETURN(const auto there, client_.FindOwn(keys, call_, KindOf(batch.front())));
    std::erase_if(batch, [&](const v1::OwnEntry& each) { return there.contains(each.key()); });
    return absl::OkStatus();
  }

  // The artifact of an entry may have failed to compile, or was not compiled yet.
  absl::Status PutIfStored(const v1::OwnEntry& entry) {
    const absl::Status status = Put({entry});
    if (!absl::IsNotFound(status)) return status;
    ++left_out_;
    return absl::OkStatus();
  }

  absl::Status Put(const std::vector<v1::OwnEntry>& entries) {
    KILN_RETURN_IF_ERROR(client_.PutOwn(entries, call_, KindOf(entries.front())));
    put_ += entries.size();
    return absl::OkStatus();
  }

  Client& client_;
  const CallOptions call_;
  const bool only_absent_;
  std::vector<v1::OwnEntry> batch_;
  size_t batch_bytes_ = 0;
  uint64_t put_ = 0;
  uint64_t left_out_ = 0;
};

// Says that all of a set of entries were put. No plug-in asks for such a key.
v1::OwnEntry MarkerOf(const Digest& keys) {
  v1::OwnEntry marker;
  marker.set_key(fmt::format("{}{}", kWarmMarkerBegin, keys.Bytes()));
  v1::OwnFile& file = *marker.add_files();
  file.set_name("warmed");
  file.set_content("1");
  return marker;
}

struct Counts {
  uint64_t put = 0;
  uint64_t left_out = 0;  // their artifacts are not stored
};

// Where all of them were put before, those that were evicted since.
absl::StatusOr<Counts> Warm(Client& client, const CallOptions& call, const std::string& path) {
  DigestBuilder keys;
  bool has_keys = false;
  KILN_RETURN_IF_ERROR(ForEachOwnEntry(path, [&](const v1::OwnEntry& entry) {
    has_keys = true;
    keys.Update(Digest::Of(entry.key()).Bytes());
    return absl::OkStatus();
  }));
  if (!has_keys) return Counts();
  const v1::OwnEntry marker = MarkerOf(keys.Finish());
  KILN_ASSIGN_OR_RETURN(const auto there, client.GetOwn({marker.key()}, call));
  OwnEntryPutter entries(client, call, /*only_absent=*/!there.empty());
  KILN_RETURN_IF_ERROR(
      ForEachOwnEntry(path, [&](const v1::OwnEntry& entry) { return entries.Add(entry); }));
  KILN_RETURN_IF_ERROR(entries.PutBatch());
  if (there.empty() && entries.left_out() == 0) KILN_RETURN_IF_ERROR(client.PutOwn({marker}, call));
  return Counts{entries.put(), entries.left_out()};
}

// False for a pipe, which has been read.
bool HasOwnEntries(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const absl::Status found = ForEachOwnEntry(
      path, [](const v1::OwnEntry&) { return absl::AlreadyExistsError("the first"); });
  return absl::IsAlreadyExists(found);
}

}  // namespace

void WarmOwnEntries(Client& client, Session& session, const std::vector<std::string>& files) {
  Console& console = session.console();
  for (const std::string& path : files) {
    const auto trusted = TrustedFile::Open(path);
    if (!trusted) {
      if (HasOwnEntries(path)) {
        console.err << fmt::format(
            "kiln: lookup keys of {} are not taken: others than you and root may have written "
            "it, so your jobs lower their kernels\n"
            "  try: 'install -m 644' makes a copy of your own, if you trust its keys\n",
            Printable(path));
      }
      continue;
    }
    const absl::StatusOr<Counts> done = Warm(client, session.Call(), trusted->path());
    if (!done.ok()) {
      console.err << fmt::format("kiln: lookup keys of {} were not put: {}\n", Printable(path),
                                 Summarize(done.status()));
      continue;
    }
    if (done->put > 0) {
      console.err << fmt::format("{} for your jobs, of {}\n",
                                 FormatCount(done->put, "recorded key"), Printable(path));
    }
    if (done->left_out > 0) {
      console.err << fmt::format("{} left out, whose kernels are not stored, of {}\n",
                                 FormatCount(done->left_out, "recorded key"), Printable(path));
    }
  }
}

}  // namespace kiln::cli
