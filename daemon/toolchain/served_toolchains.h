// The toolchains that are here, kept in step with the disk.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/toolchain/discovered_toolchains.h"
#include "storage/background_task.h"
#include "storage/base/metrics.h"
#include "storage/base/mutex.h"

namespace kiln {

// The catalogue of a running daemon. It looks around when it is made, when it is asked to, and when
// a toolchain that it has turns out to have been changed; what it then finds takes the place of
// what it had. Requests are resolved by one or the other, never by half of each.
//
// Thread-safe. Reading does not block; the constructor does, as discovery does; Reload answers from
// a thread of its own.
class ServedToolchains final : public ToolchainCatalog {
 public:
  using Found = std::shared_ptr<const DiscoveredToolchains>;

  struct Parts {
    // Blocks for seconds. Once `is_cancelled`, as soon as it can.
    std::function<Found(const std::string& default_selector,
                        const std::function<bool()>& is_cancelled)>
        discover;
    // Whether it would find something else for what only it knows of. Blocks as a disk does, on the
    // thread that discovers, in between. Null: never.
    std::function<bool()> is_outdated = nullptr;
    // Has workers for these and for no others. Called before requests can choose among them, and
    // not by the constructor; one call at a time.
    std::function<void(const DiscoveredToolchains&)> serve;
    // Forgets what requests resolved to before. Called after `serve`.
    std::function<void()> forget;
    // toolchain.default, which wins over what the file says.
    std::string configured_default;
    // The file with the selector that an operator chose while a daemon ran. Its directory must be
    // there when one is chosen.
    std::string chosen_default;
    std::chrono::milliseconds look_time = limits::kToolchainLookTime;
  };

  explicit ServedToolchains(Parts parts);
  ~ServedToolchains() override { Stop(); }

  absl::StatusOr<std::shared_ptr<const Toolchain>> Find(std::string_view selector, SourceKind kind,
                                                        const Target& target) const override {
    return Current()->Find(selector, kind, target);
  }
  std::vector<std::shared_ptr<const Toolchain>> List() const override { return Current()->List(); }
  bool HasDefault() const override { return Current()->HasDefault(); }

  // A moment's picture of all of it.
  Found Current() const;

  // Looks around again. `done` is told that it is done, or UNAVAILABLE where the daemon stops. What
  // was installed before this call is seen.
  void Reload(BackgroundTask::Done done);

  // From now on, and after a restart, what an empty selector means; "" for the newest. FAILED_-
  // PRECONDITION where no toolchain here is that, or where the configuration says another.
  absl::Status SetDefault(const std::string& selector);
  bool IsDefaultConfigured() const { return !parts_.configured_default.empty(); }

  // A toolchain is no longer what its fingerprint says: looks around again. May be said more than
  // once. Does not block.
  void NoteChange(const Toolchain& toolchain, const absl::Status& why);
  // How often that was.
  uint64_t changes() const { return changes_.value(); }
  // The last of them, with the file: "ptxas==12.8.93: /x/bin/ptxas is not as it was"; or "".
  std::string last_change() const;

  // Begins nothing new, and tells whoever waits for a reload. Does not block.
  void Refuse() { thread_.Refuse(); }
  // Refuses, and waits for work that has begun. Afterwards only SetDefault calls Parts. Idempotent.
  void Stop() { thread_.Stop(); }

 private:
  // `otherwise` where it cannot be told, which is then asked again soon.
  std::string DefaultSelector(const std::string& otherwise);
  void LookAround(const std::function<bool()>& is_stopping);
  // Whether a known toolchain's files changed, or a toolchain that was not ready may be ready now.
  bool IsOutdated();
  void Apply(Found found) KILN_REQUIRES(changing_);

  Parts parts_;
  bool default_is_unread_ = false;  // of thread_, and of the constructor before that is there
  Mutex changing_;                  // held while one takes the place of another
  mutable Mutex mutex_;
  Found current_ KILN_GUARDED_BY(mutex_);
  std::string last_change_ KILN_GUARDED_BY(mutex_);
  // Listings that were found to be no longer so.
  std::set<Digest> changed_ KILN_GUARDED_BY(mutex_);
  Counter changes_{"toolchains_changed",
                   "Toolchains whose files were changed on disk while they were served."};
  BackgroundTask thread_;  // last: it uses everything above
};

}  // namespace kiln
