#include "daemon/assemble.h"

#include <grp.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "daemon/compile/artifact_reader.h"
#include "daemon/compile/caching_provider.h"
#include "daemon/compile/coalescing_provider.h"
#include "daemon/compile/counting_provider.h"
#include "daemon/compile/executor.h"
#include "daemon/compile/publishing_provider.h"
#include "daemon/compile/request_resolver.h"
#include "daemon/compile/routing_provider.h"
#include "daemon/compile/thread_timer.h"
#include "daemon/config/units.h"
#include "daemon/observe/daemon_stats.h"
#include "daemon/policy/admission_provider.h"
#include "daemon/policy/memory_probe.h"
#include "daemon/rpc/admin_actions.h"
#include "daemon/rpc/listener.h"
#include "daemon/rpc/principal_servers.h"
#include "daemon/rpc/service_parts.h"
#include "daemon/toolchain/discovered_toolchains.h"
#include "daemon/worker/pooled_provider.h"
#include "daemon/worker/work_directory.h"
#include "storage/base/filesystem.h"
#include "storage/base/log.h"
#include "storage/hot_directory.h"
#include "storage/memory_store.h"
#include "storage/notifying_store.h"
#include "storage/quota_store.h"
#include "storage/rocks_open.h"
#include "storage/tiered_store.h"
#include "storage/verification.h"

namespace kiln {
namespace {

// Threads that wait for the disk, not for the processor. What clients and operators read has its
// own, so that however much they ask for, finished compiles are stored and answered.
constexpr int kStoreThreads = 2;
constexpr int kReadThreads = 2;
constexpr size_t kStoreQueueLength = 1024;
constexpr auto kFarewellTime = std::chrono::milliseconds(300);

int CoresOfThisProcess() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) {
    return std::max(1u, std::thread::hardware_concurrency());
  }
  return std::max(1, CPU_COUNT(&cores));
}

int SlotsOf(const Config::Workers& workers) {
  return workers.slots > 0 ? static_cast<int>(workers.slots) : CoresOfThisProcess();
}

absl::StatusOr<std::optional<gid_t>> GroupNamed(const std::string& name) {
  if (name.empty()) return std::optional<gid_t>();
  const group* found = getgrnam(name.c_str());
  if (found == nullptr) {
    return InvalidArgument("there is no group {} (sockets.group, sockets.admin_group)", name);
  }
  return std::optional<gid_t>(found->gr_gid);
}

absl::StatusOr<Listener::Socket> OpenSocket(const std::string& path, const std::string& mode,
                                            const std::string& group, bool is_admin) {
  KILN_ASSIGN_OR_RETURN(const uint32_t bits, ParseFileMode(mode));
  KILN_ASSIGN_OR_RETURN(const std::optional<gid_t> gid, GroupNamed(group));
  KILN_ASSIGN_OR_RETURN(SocketFile file, SocketFile::Open({path, bits, gid}));
  return Listener::Socket{std::move(file), is_admin};
}

// The one of the two that systemd has opened, by its name; none where it has not.
std::optional<SocketFile> TakeActivated(std::vector<SocketFile>& activated,
                                        const std::string& path) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/'));
  for (SocketFile& file : activated) {
    if (std::string_view(file.path()).ends_with(name)) return std::move(file);
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<Listener::Socket>> OpenSockets(DaemonSetting& setting) {
  struct Wanted {
    std::string path;
    std::string mode;
    std::string group;
    bool is_admin;
  };
  const Config::Sockets& config = setting.config.sockets;
  const std::string mode = !config.mode.empty() ? config.mode : getuid() == 0 ? "0660" : "0600";
  std::vector<Listener::Socket> sockets;
  for (const Wanted& wanted :
       {Wanted{setting.paths.Socket(), mode, config.group, false},
        Wanted{setting.paths.AdminSocket(), config.admin_mode, config.admin_group, true}}) {
    if (auto activated = TakeActivated(setting.activated_sockets, wanted.path)) {
      sockets.push_back({*std::move(activated), wanted.is_admin});
      continue;
    }
    KILN_ASSIGN_OR_RETURN(Listener::Socket opened,
                          OpenSocket(wanted.path, wanted.mode, wanted.group, wanted.is_admin));
    sockets.push_back(std::move(opened));
  }
  for (const SocketFile& file : setting.activated_sockets) {
    if (file.fd() < 0) continue;  // taken
    return FailedPrecondition("systemd passes {}, which is neither kilnd.sock nor admin.sock",
                              file.path());
  }
  return sockets;
}

// Everything, in the order in which it is built; it goes in the opposite order.
class RunningDaemon final : public Daemon {
 public:
  explicit RunningDaemon(DaemonSetting setting) : setting_(std::move(setting)) {}
  ~RunningDaemon() override { StopThreads(); }

  absl::Status Start();
  void Drain(SteadyTime deadline) override;
  std::string StatusLine() const override;

 private:
  absl::Status OpenStore();
  void FindToolchains();
  void BuildChain();
  std::vector<Route> BuildRoutes();
  absl::Status StartServing();
  void StartRebuild();
  void StopThreads();

  AdminActions MakeActions();
  DaemonStats Stats() const;
  absl::Status Verify(const CallContext& context,
                      const std::function<void(const VerifyProgress&)>& report);

  DaemonSetting setting_;
  const Clock& clock_ = SystemClock();
  const int64_t started_unix_ms_ = clock_.UnixMillis();
  std::atomic<bool> draining_ = false;

  // Storage: tiered(memory, quota(notifying(rocks))).
  std::unique_ptr<HotDirectory> hot_;
  std::unique_ptr<TieredStore> store_;
  QuotaStore* quota_ = nullptr;  // the durable tier of store_

  // Compile path.
  std::unique_ptr<DiscoveredToolchains> toolchains_;
  SystemMemoryProbe memory_;
  std::unique_ptr<ThreadTimer> timer_;
  std::unique_ptr<ThreadExecutor> executor_;
  std::unique_ptr<ThreadExecutor> read_executor_;
  std::unique_ptr<RequestResolver> resolver_;
  // Links of the chain that are asked how they are; the outermost owns the rest.
  std::vector<PooledProvider*> pools_;
  AdmissionProvider* admission_ = nullptr;
  std::unique_ptr<CountingProvider> chain_;

  // RPC.
  RequestGate gate_;
  RequestMemo memo_{limits::kRequestMemoBytesMax};
  std::atomic<uint64_t> refused_ = 0;
  std::unique_ptr<ArtifactReader> reader_;
  std::unique_ptr<ServiceParts> parts_;
  AdminActions actions_;
  std::mutex verifying_;
  std::unique_ptr<PrincipalServers> servers_;
  std::unique_ptr<Listener> listener_;

  std::atomic<bool> stop_rebuild_ = false;
  std::thread rebuild_;
};

absl::Status RunningDaemon::Start() {
  KILN_RETURN_IF_ERROR(OpenStore());
  KILN_RETURN_IF_ERROR(MakeEmptyDirectory(setting_.paths.WorkDirectory()));
  FindToolchains();
  BuildChain();
  KILN_RETURN_IF_ERROR(StartServing());
  StartRebuild();
  LogInfo("serving", {{"socket", setting_.paths.Socket()},
                      {"path", chain_->Describe()},
                      {"store", store_->Describe()},
                      {"toolchains", toolchains_->Describe()}});
  return absl::OkStatus();
}

absl::Status RunningDaemon::OpenStore() {
  const Config::Store& config = setting_.config.store;
  RocksStoreOptions options;
  options.path = setting_.paths.Store();
  options.expected_bytes = config.size_bytes;
  KILN_ASSIGN_OR_RETURN(OpenedRocksStore opened, OpenRocksStore(options, OsFilesystem(), clock_));
  if (!opened.report.set_aside.empty()) {
    LogError("damaged store set aside; starting with an empty one",
             {{"moved_to", opened.report.set_aside}, {"damage", opened.report.damage}});
  }

  KILN_ASSIGN_OR_RETURN(hot_,
                        HotDirectory::Open(setting_.paths.HotDirectory(),
                                           {.bytes_max = setting_.config.hot.size_bytes}, clock_));
  auto quota = std::make_unique<QuotaStore>(
      std::make_unique<NotifyingStore>(std::move(opened.store),
                                       std::vector<ArtifactListener*>{hot_.get()}),
      QuotaOptions{config.size_bytes, config.free_disk_bytes, setting_.paths.state}, OsFilesystem(),
      clock_);
  quota_ = quota.get();
  store_ = std::make_unique<TieredStore>(
      std::make_unique<MemoryStore>(config.memory_tier_bytes, clock_), std::move(quota), clock_);
  return absl::OkStatus();
}

void RunningDaemon::FindToolchains() {
  DiscoveryOptions options;
  options.search_path = setting_.toolchain_directories;
  options.cache_directory = setting_.paths.state + "/toolchains";
  options.work_directory = setting_.paths.WorkDirectory();
  options.worker_script = setting_.worker_script;
  options.default_selector = setting_.config.toolchain.default_selector;
  toolchains_ = DiscoveredToolchains::Discover(options, OsFilesystem());
}

std::vector<Route> RunningDaemon::BuildRoutes() {
  const Config::Workers& config = setting_.config.workers;
  std::vector<Route> routes;
  for (const auto& toolchain : toolchains_->List()) {
    const std::string directory =
        setting_.paths.WorkDirectory() + "/" + toolchain->fingerprint.ShortHex();
    WorkerPoolOptions options;
    options.zygote = TritonZygoteCommand(*toolchain, setting_.worker_script, directory + "-zygote");
    options.work_directory = directory;
    options.slots = SlotsOf(config);
    options.eager = routes.empty();  // the default toolchain; others start when asked for
    options.compile_time_max = config.compile_time;
    options.compiles_per_worker = static_cast<int>(config.compiles_per_worker);
    options.worker_rss_bytes_max = config.rss_bytes;
    auto pooled = std::make_unique<PooledProvider>(toolchain, std::move(options), clock_);
    pools_.push_back(pooled.get());
    routes.push_back({toolchain, std::move(pooled)});
  }
  return routes;
}

void RunningDaemon::BuildChain() {
  timer_ = std::make_unique<ThreadTimer>();
  executor_ = std::make_unique<ThreadExecutor>(kStoreThreads, kStoreQueueLength);
  read_executor_ = std::make_unique<ThreadExecutor>(kReadThreads, kStoreQueueLength);
  resolver_ = std::make_unique<RequestResolver>(*toolchains_);

  auto routing = std::make_unique<RoutingProvider>(BuildRoutes());
  AdmissionLimits limits;
  limits.running_max = SlotsOf(setting_.config.workers);
  limits.queue.length_max = static_cast<size_t>(setting_.config.queue.length);
  limits.free_memory_bytes_min = setting_.config.workers.memory_min_bytes;
  auto admission =
      std::make_unique<AdmissionProvider>(std::move(routing), limits, memory_, clock_, *timer_);
  admission_ = admission.get();
  auto caching = std::make_unique<CachingProvider>(std::move(admission), store_->index(),
                                                   store_->blobs(), clock_, *executor_);
  auto publishing = std::make_unique<PublishingProvider>(std::move(caching), *hot_, *executor_);
  auto coalescing = std::make_unique<CoalescingProvider>(std::move(publishing), clock_, *timer_);
  chain_ = std::make_unique<CountingProvider>(std::move(coalescing));
}

absl::Status RunningDaemon::StartServing() {
  reader_ = std::make_unique<ArtifactReader>(store_->blobs());
  parts_ = std::make_unique<ServiceParts>(ServiceParts{*resolver_, *chain_, *toolchains_,
                                                       store_->index(), store_->blobs(), *reader_,
                                                       *read_executor_, gate_, memo_, refused_});
  actions_ = MakeActions();
  servers_ = std::make_unique<PrincipalServers>(*parts_, actions_);
  KILN_ASSIGN_OR_RETURN(std::vector<Listener::Socket> sockets, OpenSockets(setting_));
  KILN_ASSIGN_OR_RETURN(listener_, Listener::Start(std::move(sockets), *servers_));
  return absl::OkStatus();
}

// The hot directory is on a tmpfs: after a reboot it is empty, and the store is not.
void RunningDaemon::StartRebuild() {
  rebuild_ = std::thread([this] {
    const absl::Status status =
        hot_->Rebuild(quota_->index(), quota_->blobs(), [this] { return stop_rebuild_.load(); });
    if (!status.ok() && !absl::IsCancelled(status)) {
      LogWarning("hot directory not rebuilt", {{"why", Message(status)}});
    }
  });
}

void RunningDaemon::Drain(SteadyTime deadline) {
  draining_ = true;
  stop_rebuild_ = true;
  // Who connects from now on is refused at once, or waits in systemd's socket for the next daemon.
  listener_->Stop();
  servers_->SetServing(false);
  gate_.Close();
  if (!gate_.AwaitEmpty(deadline)) LogWarning("requests under way are cancelled");
  // Answers have left the compile path; this is for their last bytes. Connections that only stand
  // open would otherwise be waited for, and a client that is not in a call does not notice that it
  // should close.
  servers_->Shutdown(clock_.Now() + kFarewellTime);
  StopThreads();
}

void RunningDaemon::StopThreads() {
  stop_rebuild_ = true;
  if (rebuild_.joinable()) rebuild_.join();
  for (PooledProvider* pooled : std::exchange(pools_, {})) {
    pooled->pool().Shutdown(clock_.Now());
  }
  // Runs what the pools' last answers have queued, while the chain that it belongs to is there.
  executor_.reset();
  read_executor_.reset();
}

AdminActions RunningDaemon::MakeActions() {
  AdminActions actions;
  actions.stats = [this] { return Stats(); };
  actions.evict_to = [this](const CallContext& context,
                            uint64_t target_bytes) -> absl::StatusOr<uint64_t> {
    KILN_ASSIGN_OR_RETURN(const EvictionResult result, quota_->EvictDownTo(context, target_bytes));
    return result.evicted;
  };
  actions.verify = [this](const CallContext& context, const auto& report) {
    return Verify(context, report);
  };
  actions.drain = setting_.request_drain;
  return actions;
}

absl::Status RunningDaemon::Verify(const CallContext& context,
                                   const std::function<void(const VerifyProgress&)>& report) {
  // Two at a time would read everything twice and find the same.
  const std::unique_lock only(verifying_, std::try_to_lock);
  if (!only) return FailedPrecondition("a verification is under way already; wait for its end");
  size_t reported = 0;
  return VerifyArtifacts(context, quota_->index(), quota_->blobs(), store_->index(),
                         [&](const VerificationProgress& progress) {
                           VerifyProgress news{progress.checked, progress.checked_bytes, {}};
                           news.quarantined.assign(progress.damaged.begin() + reported,
                                                   progress.damaged.end());
                           reported = progress.damaged.size();
                           report(news);
                           return !context.cancellation.IsCancelled();
                         })
      .status();
}

DaemonStats RunningDaemon::Stats() const {
  DaemonStats stats;
  stats.version = KILN_VERSION;
  stats.started_unix_ms = started_unix_ms_;
  stats.compile_path = chain_->Describe();
  stats.store = store_->Describe();

  const CompileCounts counts = chain_->Counts();
  const uint64_t refused = refused_ + (listener_ == nullptr ? 0 : listener_->refused());
  stats.requests = counts.requests + refused;
  stats.hits_memory = counts.hits[0];
  stats.hits_disk = counts.hits[1];
  stats.joined = counts.joined;
  stats.compiled = counts.compiled;
  stats.failed = counts.failed;
  stats.rejected = counts.rejected + refused;

  const StoreStats stored = store_->Stats();
  stats.artifacts = stored.artifacts;
  stats.store_bytes = stored.stored_bytes;
  stats.store_bytes_max = stored.stored_bytes_max;
  stats.evicted = stored.evicted;
  stats.quarantined = stored.quarantined;
  stats.free_disk_bytes = stored.free_disk_bytes;
  const HotDirectoryStats hot = hot_->Stats();
  stats.hot_bytes = hot.bytes;
  stats.hot_files = hot.files;

  const auto toolchains = toolchains_->List();
  for (size_t i = 0; i < pools_.size(); ++i) {
    const PoolStats pool = pools_[i]->pool().Stats();
    stats.toolchains.push_back({toolchains[i]->Name(), toolchains[i]->fingerprint, pool.zygote,
                                static_cast<uint64_t>(pool.workers)});
    stats.workers += pool.workers;
    stats.workers_started += pool.started;
    stats.workers_killed += pool.killed;
    stats.workers_crashed += pool.crashed;
    stats.compile_cpu_micros += pool.compile_cpu_micros;
  }
  const AdmissionStats admission = admission_->Stats();
  stats.queued = admission.queued;
  stats.running = admission.running;
  stats.connections = listener_ == nullptr ? 0 : listener_->connections();

  if (draining_) {
    stats.state = "draining";
  } else if (!stored.degraded.empty()) {
    stats.state = "degraded";
    stats.state_reason = stored.degraded;
  }
  return stats;
}

std::string RunningDaemon::StatusLine() const {
  const DaemonStats stats = Stats();
  return fmt::format("{}: {} artifacts, {} workers, {} running, {} queued", stats.state,
                     stats.artifacts, stats.workers, stats.running, stats.queued);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Assemble(DaemonSetting setting) {
  auto daemon = std::make_unique<RunningDaemon>(std::move(setting));
  KILN_RETURN_IF_ERROR(daemon->Start());
  return daemon;
}

}  // namespace kiln
