#include "storage/rocks/rocks_open.h"

#include <rocksdb/env.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "storage/base/log.h"
#include "storage/base/remove_tree.h"
#include "storage/memory_store.h"
#include "storage/rocks/rocks_database.h"
#include "storage/rocks/rocks_directory.h"
#include "storage/rocks/rocks_probe.h"
#include "storage/rocks/rocks_salvage.h"
#include "storage/rocks/rocks_schema.h"
#include "storage/rocks/rocks_store.h"
#include "storage/waiting_store.h"

namespace kiln {
namespace {

using Content = RocksDirectory::Content;

absl::Status WithAdvice(const absl::Status& status, const std::string& path) {
  if (absl::IsPermissionDenied(status)) {
    return PermissionDenied(
        "the store {} cannot be written ({}): give uid {} the right to, or choose another "
        "directory",
        path, Message(status), geteuid());
  }
  if (absl::IsResourceExhausted(status)) {
    return ResourceExhausted(
        "the store {} cannot be opened ({}): free what it lacks, memory, open files or space on "
        "the disk, then start again",
        path, Message(status));
  }
  return Annotate(status, "the store " + path);
}

// Where the whole part of a damaged store is put together.
std::string SalvagedPath(const std::string& path) { return path + ".salvaged"; }

// A store of an older version is a store of this version without the later additions.
absl::Status WriteSchema(RocksDatabase& database) {
  const std::string version = std::to_string(kRocksSchemaVersion);
  const auto row = database.Get(RocksFamily::kMeta, kSchemaRow);
  if (row.ok() && *row == version) return absl::OkStatus();
  RocksDatabase::Batch batch(database);
  batch.Put(RocksFamily::kMeta, kSchemaRow, version);
  return database.Write(batch);
}

// The readable part of a store that cannot be written now.
struct Meanwhile {
  std::unique_ptr<Store> store;
  std::string damage;
};

// The steps of opening one store. Copyable.
class RocksOpening {
 public:
  RocksOpening(const RocksStoreOptions& options, Filesystem& filesystem, const Clock& clock)
      : options_(options), filesystem_(filesystem), clock_(clock) {}

  absl::StatusOr<OpenedRocksStore> ProbeAndOpen() const {
    KILN_ASSIGN_OR_RETURN(const auto directory,
                          RocksDirectory::Prepare(options_.path, filesystem_));
    KILN_RETURN_IF_ERROR(directory.CheckWritable());
    KILN_ASSIGN_OR_RETURN(Content content, directory.Look());
    // A kill came between SetAside and the rename behind it: what was salvaged is whole.
    const std::string salvaged = SalvagedPath(directory.path());
    if (content == Content::kNothing && access(salvaged.c_str(), F_OK) == 0) {
      KILN_RETURN_IF_ERROR(RemoveTree(directory.path()));
      KILN_RETURN_IF_ERROR(filesystem_.Rename(salvaged, directory.path()));
      KILN_ASSIGN_OR_RETURN(content, directory.Look());
    }
    // The probe takes the lock itself.
    KILN_ASSIGN_OR_RETURN(const std::string damage,
                          FindDamage(directory.path(), content, RocksAccess::kWrite));
    return OpenOrSetAside(directory, content, damage, Bounds());
  }

  bool IsDiskFull() const {
    const auto directory = RocksDirectory::Prepare(options_.path, filesystem_);
    return absl::IsResourceExhausted(directory.ok() ? directory->CheckWritable()
                                                    : directory.status());
  }

  // `why` is the error of ProbeAndOpen.
  absl::StatusOr<OpenedRocksStore> WaitForSpace(const absl::Status& why) const {
    KILN_ASSIGN_OR_RETURN(Meanwhile meanwhile, OpenForReading());
    OpenedRocksStore opened;
    opened.report.damage = meanwhile.damage;
    opened.report.waits_because = FullReason(why);
    LogError("nothing is stored until there is space",
             {{"reason", opened.report.waits_because},
              {"readable_artifacts", meanwhile.store->Stats().artifacts},
              {"damage", meanwhile.damage}});
    auto open = [opening = *this,
                 damage = meanwhile.damage]() -> absl::StatusOr<std::unique_ptr<Store>> {
      auto later = opening.OpenLater(damage);
      if (!absl::IsResourceExhausted(later.status())) return later;
      return ResourceExhausted("{}", opening.FullReason(later.status()));
    };
    opened.store =
        std::make_unique<WaitingStore>(std::move(meanwhile.store), opened.report.waits_because,
                                       std::move(open), options_.retry_interval);
    return opened;
  }

 private:
  // Why the store is damaged. Empty: it is whole. An error: the store may be whole.
  absl::StatusOr<std::string> FindDamage(const std::string& path, Content content,
                                         RocksAccess access) const {
    if (content == Content::kNothing) return std::string();
    if (content == Content::kRubble) return std::string("its CURRENT file is missing");
    if (content == Content::kWithoutLog) {
      return std::string("its log is missing: what was stored last is lost");
    }
    const auto marker = filesystem_.Read(fmt::format("{}/{}", path, kDamagedMarker), 4096);
    if (marker.ok()) return "it was found damaged while it ran: " + *marker;
    const absl::Status probed =
        ProbeRocksStore(path, options_.expected_bytes, Bounds(), options_.env, access);
    if (absl::IsDataLoss(probed)) return std::string(Message(probed));
    if (!probed.ok()) return probed;
    return std::string();
  }

  absl::StatusOr<std::unique_ptr<RocksStore>> OpenDatabase(const std::string& path,
                                                           RocksAccess access) const {
    KILN_ASSIGN_OR_RETURN(auto database,
                          RocksDatabase::Open(path, options_.expected_bytes, options_.env, access));
    if (access == RocksAccess::kWrite) KILN_RETURN_IF_ERROR(WriteSchema(*database));
    return RocksStore::Load(std::move(database), path, options_.expected_bytes, filesystem_,
                            clock_);
  }

  ChildBounds Bounds() const { return {options_.open_time_max, options_.stop_fd}; }

  // The directory of a new store with what is whole of the damaged one. Empty: nothing can be kept.
  // An error: that may be tried again. `bounds`: as OpenOrSetAside.
  absl::StatusOr<std::string> Salvage(const std::string& from,
                                      const std::optional<ChildBounds>& bounds) const {
    const std::string to = SalvagedPath(from);
    KILN_RETURN_IF_ERROR(RemoveTree(to));  // of a daemon that died
    const auto salvage = [&] {
      return SalvageRocksStore(from, to, options_.expected_bytes, options_.env);
    };
    absl::Status status =
        bounds ? RunInChild({2 * bounds->time_max, bounds->stop_fd}, salvage) : salvage();
    if (status.ok() && bounds) {
      status = ProbeRocksStore(to, options_.expected_bytes, *bounds, options_.env);
    }
    if (status.ok()) return to;
    (void)RemoveTree(to);
    if (absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
        absl::IsCancelled(status)) {
      return status;
    }
    LogError("nothing of the damaged store can be kept", {{"error", Message(status)}});
    return std::string();
  }

  // Opens for writing. `damage`: why the store is known to be damaged; empty: it is not. `bounds`:
  // of the child that salvages; none: the process has threads and must not fork.
  absl::StatusOr<OpenedRocksStore> OpenOrSetAside(const RocksDirectory& directory, Content content,
                                                  const std::string& damage,
                                                  std::optional<ChildBounds> bounds) const {
    OpenedRocksStore opened;
    opened.report.damage = damage;
    opened.report.is_new = content == Content::kNothing;
    if (damage.empty()) {
      auto store = OpenDatabase(directory.path(), RocksAccess::kWrite);
      if (store.ok()) {
        opened.store = *std::move(store);
        return opened;
      }
      // Damage that the probe did not notice.
      if (!absl::IsDataLoss(store.status())) return store.status();
      opened.report.damage = std::string(Message(store.status()));
      bounds.reset();  // that open has started RocksDB's threads
    }
    // A disk that filled up meanwhile can make the store look damaged.
    KILN_RETURN_IF_ERROR(directory.CheckWritable());
    KILN_ASSIGN_OR_RETURN(const std::string salvaged, Salvage(directory.path(), bounds));
    opened.report.is_new = salvaged.empty();
    KILN_ASSIGN_OR_RETURN(opened.report.set_aside,
                          directory.SetAside(opened.report.damage, clock_));
    if (!salvaged.empty()) KILN_RETURN_IF_ERROR(filesystem_.Rename(salvaged, directory.path()));
    KILN_ASSIGN_OR_RETURN(opened.store, OpenDatabase(directory.path(), RocksAccess::kWrite));
    return opened;
  }

  absl::StatusOr<Meanwhile> OpenForReading() const {
    // A store of 0 bytes holds nothing and refuses puts.
    Meanwhile meanwhile{std::make_unique<MemoryStore>(0, clock_), ""};
    const auto directory = RocksDirectory::Prepare(options_.path, filesystem_);
    const auto content = directory.ok() ? directory->Look() : directory.status();
    // No space for the directory or its lock file: there was no store.
    if (absl::IsResourceExhausted(content.status())) return meanwhile;
    KILN_RETURN_IF_ERROR(content.status());

    const auto damage = FindDamage(directory->path(), *content, RocksAccess::kRead);
    // Neither damaged nor readable: the disk filled up during the creation of the database.
    if (absl::IsInternal(damage.status())) return meanwhile;
    KILN_RETURN_IF_ERROR(damage.status());
    meanwhile.damage = *damage;
    if (*content != Content::kDatabase || !damage->empty()) return meanwhile;
    KILN_ASSIGN_OR_RETURN(meanwhile.store, OpenDatabase(directory->path(), RocksAccess::kRead));
    return meanwhile;
  }

  // The process has threads now and must not fork, so this does not probe: `damage` is the finding
  // of the start. Where this open crashes, the next start probes.
  absl::StatusOr<std::unique_ptr<Store>> OpenLater(const std::string& damage) const {
    KILN_ASSIGN_OR_RETURN(const auto directory,
                          RocksDirectory::Prepare(options_.path, filesystem_));
    KILN_RETURN_IF_ERROR(directory.CheckWritable());
    KILN_ASSIGN_OR_RETURN(const Content content, directory.Look());
    KILN_ASSIGN_OR_RETURN(OpenedRocksStore opened,
                          OpenOrSetAside(directory, content, damage, std::nullopt));
    return std::move(opened.store);
  }

  std::string FullReason(const absl::Status& why) const {
    return fmt::format("the disk under {} is full ({}): free some space there", options_.path,
                       Message(why));
  }

  RocksStoreOptions options_;
  Filesystem& filesystem_;
  const Clock& clock_;
};

}  // namespace

absl::StatusOr<OpenedRocksStore> OpenRocksStore(const RocksStoreOptions& options,
                                                Filesystem& filesystem, const Clock& clock) {
  const RocksOpening opening(options, filesystem, clock);
  auto opened = opening.ProbeAndOpen();
  if (absl::IsResourceExhausted(opened.status()) && opening.IsDiskFull()) {
    opened = opening.WaitForSpace(opened.status());
  }
  if (!opened.ok()) return WithAdvice(opened.status(), options.path);
  if (opened->report.waits_because.empty()) {
    LogInfo("opened the store",
            {{"path", options.path}, {"artifacts", opened->store->Stats().artifacts}});
  }
  return opened;
}

}  // namespace kiln
