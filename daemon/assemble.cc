#include "daemon/assemble.h"

#include <absl/synchronization/mutex.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/chain/admission_provider.h"
#include "daemon/chain/auditing_provider.h"
#include "daemon/chain/caching_provider.h"
#include "daemon/chain/checking_provider.h"
#include "daemon/chain/coalescing_provider.h"
#include "daemon/chain/counting_provider.h"
#include "daemon/chain/pooled_provider.h"
#include "daemon/chain/routing_provider.h"
#include "daemon/chain/toolchain_pools.h"
#include "daemon/kernel/request_resolver.h"
#include "daemon/messages/text.h"
#include "daemon/messages/translate.h"
#include "daemon/observe/activity.h"
#include "daemon/observe/daemon_state.h"
#include "daemon/policy/core_count.h"
#include "daemon/policy/memory_probe.h"
#include "daemon/policy/negative_cache.h"
#include "daemon/policy/recent_asks.h"
#include "daemon/process/allocator.h"
#include "daemon/process/work_directory.h"
#include "daemon/process/worker_groups.h"
#include "daemon/rpc/admin_actions.h"
#include "daemon/rpc/light/light_server.h"
#include "daemon/rpc/principal_servers.h"
#include "daemon/rpc/reply_bytes.h"
#include "daemon/rpc/request_gate.h"
#include "daemon/rpc/request_memo.h"
#include "daemon/rpc/rpc_dependencies.h"
#include "daemon/rpc/sockets/listener.h"
#include "daemon/rpc/sockets/open_sockets.h"
#include "daemon/sandbox/file_view.h"
#include "daemon/sandbox/jail.h"
#include "daemon/sandbox/work_mount.h"
#include "daemon/toolchain/known_bad.h"
#include "daemon/toolchain/named_owners.h"
#include "daemon/toolchain/ownership_check.h"
#include "daemon/toolchain/served_toolchains.h"
#include "daemon/toolchain/toolchain_cache.h"
#include "daemon/toolchain/toolchain_installations.h"
#include "storage/background_task.h"
#include "storage/base/executor.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"
#include "storage/base/metrics.h"
#include "storage/base/shared_uid.h"
#include "storage/base/thread_timer.h"
#include "storage/base/units.h"
#include "storage/base/users.h"
#include "storage/hot/artifact_layout.h"
#include "storage/hot/hot_directory.h"
#include "storage/memory_store.h"
#include "storage/notifying_store.h"
#include "storage/quota_store.h"
#include "storage/rocks/rocks_open.h"
#include "storage/tiered_store.h"
#include "storage/user_cache.h"
#include "storage/user_quota.h"
#include "storage/user_rate_limit.h"
#include "storage/verification.h"
#include "storage/warm_leases.h"

namespace kiln {
namespace {

// Threads that wait for the disk, not for the processor. What clients and operators read has its
// own, so that however much they ask for, finished compiles are stored and answered.
constexpr int kStoreThreads = 2;
constexpr int kReadThreads = 2;
// Blocks of bundles take long, and jobs read meanwhile.
constexpr int kBundleThreads = 2;
constexpr size_t kStoreQueueLength = 1024;
constexpr auto kFarewellTime = std::chrono::milliseconds(300);

// That this process may have.
uint64_t DescriptorsMax() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

int SlotsOf(const Config::Workers& workers) {
  if (workers.slots > 0) return static_cast<int>(workers.slots);
  return CoresWithinQuota(ControlGroups::Find(OsFilesystem(), ""), OsFilesystem(), AffinityCores());
}

Jail::Mode JailMode(const Config::Workers& workers) {
  if (workers.jail == "off") return Jail::Mode::kOff;
  return workers.require_jail ? Jail::Mode::kRequired : Jail::Mode::kOn;
}

std::string AllocatorOf(const DaemonSetting& setting, const FileOwners& owners) {
  if (setting.config.workers.malloc != "jemalloc") return "";
  // In a relocated installation the worker's program is lib/kiln/triton_worker.py.
  const auto libraries = std::filesystem::path(setting.worker_script).parent_path().parent_path();
  std::string found = FindJemalloc(libraries, [&](const auto& directory, const auto& path) {
    return FileTrust(owners).CheckFrom(directory, path);
  });
  if (found.empty()) {
    LogInfo("workers use the C library's malloc: with libjemalloc2 installed, compiles are faster");
  }
  return found;
}

// Why backends that a toolchain may have are not used.
std::vector<std::string> RemarksOn(const Toolchain& toolchain) {
  std::vector<std::string> remarks;
  for (const std::string_view backend : {"cuda", "hip"}) {
    const std::string_view bad = KnownBad(toolchain.name, toolchain.version, backend);
    if (!bad.empty()) remarks.push_back(fmt::format("not used for {}: {}", backend, bad));
  }
  return remarks;
}

WorkerLimits LimitsOf(const Config::Workers& workers) {
  WorkerLimits limits;
  limits.address_space_bytes = limits::kAddressSpacePerRss * workers.rss_bytes;
  limits.cpu_seconds = static_cast<uint64_t>(
      std::chrono::ceil<std::chrono::seconds>(workers.compile_time + limits::kCpuTimeSpare)
          .count());
  limits.disk_bytes = limits::kWorkerDiskBytesMax;
  limits.disk_entries = limits::kWorkerDiskEntriesMax;
  return limits;
}

absl::StatusOr<std::vector<WantedSocket>> WantedSockets(const Config::Sockets& config,
                                                        const Paths& paths) {
  const std::string mode = !config.mode.empty() ? config.mode : getuid() == 0 ? "0660" : "0600";
  KILN_ASSIGN_OR_RETURN(const mode_t mode_bits, ParseFileMode(mode));
  KILN_ASSIGN_OR_RETURN(const mode_t admin_mode_bits, ParseFileMode(config.admin_mode));
  return std::vector<WantedSocket>{
      {paths.Socket(), mode_bits, config.group, /*is_admin=*/false},
      {paths.AdminSocket(), admin_mode_bits, config.admin_group, /*is_admin=*/true}};
}

// Everything, in the order in which it is built; it goes in the opposite order.
class RunningDaemon final : public Daemon {
 public:
  explicit RunningDaemon(DaemonSetting setting) : setting_(std::move(setting)) {}
  ~RunningDaemon() override { StopThreads(); }

  absl::Status Start();
  void Drain(SteadyTime deadline) override;
  std::string StatusLine() const override { return State().Line(); }

 private:
  absl::Status OpenStore();
  void FindToolchains();
  void PublishToolchains();
  std::string ToolchainDirectory() const { return setting_.paths.state + "/toolchains"; }
  // Finds out which bounds of workers this kernel and this process's rights allow.
  void BoundWorkers();
  void BuildChain();
  // `caching`, with audits by `compiler` in front where the configuration wants any.
  std::unique_ptr<CompilationProvider> Audited(std::unique_ptr<CompilationProvider> caching,
                                               CompilationProvider& compiler);
  ToolchainWorkers MakeWorkers(const std::shared_ptr<const Toolchain>& toolchain, bool starts_ahead,
                               int serial);
  // What every pool has in common.
  WorkerPoolOptions PoolOptions(const Toolchain& toolchain, int serial) const;
  void ServeToolchains(const DiscoveredToolchains& found);
  absl::Status StartServing();
  AdminActions MakeActions();
  absl::Status Verify(const CallContext& context, const VerificationCallback& report);
  DaemonState State() const;
  uint64_t ArtifactCount() const;
  void ShowState(admin::v1::GetStatsResponse& out) const;
  ToolchainsHere Toolchains() const;
  void StartRebuild();
  // What left the hot directory and is used again comes back, on a thread of its own.
  void PublishUsed(const std::vector<UseCount>& uses);
  // What is counted for jobs, and what is leased.
  void SaveBooks();
  void StopThreads();

  DaemonSetting setting_;
  const Clock& clock_ = SystemClock();
  const int64_t started_unix_ms_ = clock_.UnixMillis();
  const std::optional<uid_t> shared_uid_ = SharedUidHere(OsFilesystem());
  // Owners of toolchains. Only discovery uses them, on one thread at a time.
  NamedOwners owners_{setting_.config.toolchain.trusted_owners, shared_uid_, FindUser};
  std::atomic<bool> draining_ = false;

  // Storage: tiered(memory, quota(notifying(rocks))).
  std::unique_ptr<HotDirectory> hot_;
  std::unique_ptr<UserQuota> user_quota_;
  std::unique_ptr<WarmLeases> leases_;
  std::unique_ptr<TieredStore> store_;
  QuotaStore* quota_ = nullptr;  // the durable tier of store_
  std::unique_ptr<UserCache> own_;
  RecentAsks asks_{clock_};
  UserRateLimit user_rate_limit_{UserRateLimits(), clock_};
  Activity activity_{setting_.paths.Activity(), OsFilesystem(), clock_};

  // Compile path.
  std::unique_ptr<ServedToolchains> toolchains_;
  std::mutex publishing_;
  std::unique_ptr<ToolchainInstallations> installations_;
  SystemMemoryProbe memory_{OsFilesystem(), clock_};
  std::shared_ptr<Jail> jail_;
  std::shared_ptr<WorkerGroups> worker_groups_;  // null: there can be none
  WorkerLimits worker_limits_;
  std::vector<std::string> plain_limits_;  // why some bounds of workers are per process
  std::string allocator_;                  // of workers; "": the C library's
  std::unique_ptr<ThreadTimer> timer_;
  std::unique_ptr<ThreadExecutor> executor_;
  std::unique_ptr<ThreadExecutor> read_executor_;
  std::unique_ptr<ThreadExecutor> bundle_executor_;
  std::unique_ptr<ThreadExecutor> publishing_executor_;
  std::unique_ptr<RequestResolver> resolver_;
  NegativeCache negatives_{clock_, setting_.config.workers.quarantine_time};
  // Links of the chain that are asked how they are; the outermost owns the rest.
  std::unique_ptr<ToolchainPools> pools_;
  AuditCounters audit_counters_;
  AdmissionProvider* admission_ = nullptr;
  AuditingProvider* auditing_ = nullptr;  // null: there are no audits
  std::unique_ptr<CountingProvider> chain_;

  // RPC.
  RequestGate gate_;
  RequestMemo memo_{setting_.config.store.memory_bytes / 4};
  std::atomic<size_t> searches_ = 0;
  std::unique_ptr<RpcDependencies> parts_;
  AdminActions actions_;
  std::mutex verifying_;
  std::unique_ptr<PrincipalServers> servers_;
  std::unique_ptr<LightServer> light_server_;
  std::unique_ptr<Listener> listener_;

  std::atomic<bool> stop_rebuild_ = false;
  std::thread rebuild_;
  std::optional<BackgroundTask> saving_;  // SaveBooks

  // Numbers of two parts together, or of a part that may not be there or has no object.
  Gauge artifacts_gauge_{"artifacts", "Artifacts stored now.", [this] { return ArtifactCount(); }};
  Counter hot_uses_{"hot_uses", "Hits in the hot directory that clients told of."};
  Gauge audits_gauge_{"audits_waiting", "Hits noted down to be compiled again.",
                      [this] { return auditing_ == nullptr ? 0 : auditing_->waiting(); }};
};

absl::Status RunningDaemon::Start() {
  KILN_RETURN_IF_ERROR(OpenStore());
  KILN_RETURN_IF_ERROR(MakeEmptyDirectory(setting_.paths.WorkDirectory()));
  owners_.Ask();
  allocator_ = AllocatorOf(setting_, owners_.known());
  FindToolchains();
  jail_ = std::make_shared<Jail>(JailMode(setting_.config.workers), JailSupport::OfThisKernel());
  BoundWorkers();
  BuildChain();
  KILN_RETURN_IF_ERROR(StartServing());
  StartRebuild();
  LogInfo("serving", {{"socket", setting_.paths.Socket()},
                      {"path", chain_->Describe()},
                      {"store", store_->Describe()},
                      {"toolchains", toolchains_->Current()->Describe()}});
  return absl::OkStatus();
}

void RunningDaemon::BoundWorkers() {
  const WorkerGroupBounds bounds{.memory_bytes = limits::kAddressSpacePerRss *
                                                 setting_.config.workers.rss_bytes};
  auto groups = WorkerGroups::Open(ControlGroups::Find(OsFilesystem(), ""), bounds);
  if (groups.ok()) {
    worker_groups_ = *std::move(groups);
  } else {
    plain_limits_.push_back(
        fmt::format("no control group for each worker: {}", Message(groups.status())));
  }
  if (worker_groups_ != nullptr && !worker_groups_->bounds_memory()) {
    plain_limits_.emplace_back("no control group bounds the memory of a worker");
  }
  worker_limits_ = LimitsOf(setting_.config.workers);
  FileView view;
  view.MakeDirectory(setting_.paths.WorkDirectory());
  const absl::Status mounted =
      CanMountWorkDirectory(setting_.paths.WorkDirectory(), worker_limits_, view.Take());
  if (!mounted.ok()) {
    worker_limits_.disk_bytes = worker_limits_.disk_entries = 0;
    plain_limits_.push_back(fmt::format("no tmpfs for each worker: {}", Message(mounted)));
  }
  for (const std::string& limit : plain_limits_) {
    LogInfo("a bound of workers holds for each process only", {{"reason", limit}});
  }
}

absl::Status RunningDaemon::OpenStore() {
  const Config::Store& config = setting_.config.store;
  RocksStoreOptions options;
  options.path = setting_.paths.Store();
  options.expected_bytes = config.size_bytes;
  options.stop_fd = setting_.stop_fd;
  KILN_ASSIGN_OR_RETURN(OpenedRocksStore opened, OpenRocksStore(options, OsFilesystem(), clock_));

  KILN_ASSIGN_OR_RETURN(hot_, HotDirectory::Open(setting_.paths.HotDirectory(),
                                                 {.bytes_max = setting_.config.hot.size_bytes},
                                                 OsFilesystem(), clock_));
  user_quota_ = std::make_unique<UserQuota>(UserQuotaLimits::Of(config.size_bytes), clock_);
  auto notifying = std::make_unique<NotifyingStore>(
      std::move(opened.store), std::vector<ArtifactListener*>{hot_.get(), user_quota_.get()});
  NotifyingStore& durable = *notifying;
  leases_ = std::make_unique<WarmLeases>(setting_.paths.Leases(),
                                         WarmLeaseLimits::Of(config.lease_time, config.size_bytes),
                                         OsFilesystem(), clock_);
  auto quota = std::make_unique<QuotaStore>(
      std::move(notifying),
      QuotaOptions{config.size_bytes, config.free_disk_bytes, setting_.paths.state,
                   [this](const Digest& key) { return leases_->Holds(key); }},
      OsFilesystem(), clock_);
  quota_ = quota.get();
  store_ = std::make_unique<TieredStore>(
      std::make_unique<MemoryStore>(config.memory_bytes / 2, clock_), std::move(quota),
      [this](const std::vector<UseCount>& uses) { PublishUsed(uses); });
  durable.AddListener(*store_);  // evictions
  durable.AddListener(*leases_);
  own_ = std::make_unique<UserCache>(store_->index(), store_->blobs(), *user_quota_, clock_);
  return absl::OkStatus();
}

void RunningDaemon::FindToolchains() {
  const std::string own = ToolchainDirectory();
  std::vector<std::string>& searched = setting_.toolchain_directories;
  if (std::find(searched.begin(), searched.end(), own) == searched.end()) searched.push_back(own);
  const auto discover = [this, own](const auto& default_selector, const auto& is_cancelled) {
    owners_.Ask();
    DiscoveryOptions options;
    options.search_path = setting_.toolchain_directories;
    options.cache_directory = own;
    options.work_directory = setting_.paths.WorkDirectory();
    options.worker_script = setting_.worker_script;
    options.native_worker = setting_.native_worker;
    options.owners = owners_.known();
    options.default_selector = default_selector;
    options.is_cancelled = is_cancelled;
    return DiscoveredToolchains::Discover(options, OsFilesystem());
  };
  toolchains_ = std::make_unique<ServedToolchains>(ServedToolchains::Parts{
      .discover = discover,
      .is_outdated = [this] { return owners_.Ask(); },
      .serve = [this](const DiscoveredToolchains& found) { ServeToolchains(found); },
      .forget =
          [this] {
            memo_.Clear();
            PublishToolchains();
          },
      .configured_default = setting_.config.toolchain.default_selector,
      .chosen_default = own + "/default"});
  installations_ = std::make_unique<ToolchainInstallations>(*toolchains_, searched, own);
  PublishToolchains();
}

void RunningDaemon::PublishToolchains() {
  const std::lock_guard one_at_a_time(publishing_);
  v1::ListToolchainsResponse answer;
  ToProto(*toolchains_, answer);
  hot_->PublishFile(kPublishedToolchains, answer.SerializeAsString());
}

void RunningDaemon::BuildChain() {
  timer_ = std::make_unique<ThreadTimer>();
  executor_ = std::make_unique<ThreadExecutor>(kStoreThreads, kStoreQueueLength);
  read_executor_ = std::make_unique<ThreadExecutor>(kReadThreads, kStoreQueueLength);
  bundle_executor_ = std::make_unique<ThreadExecutor>(kBundleThreads, kStoreQueueLength);
  publishing_executor_ = std::make_unique<ThreadExecutor>(1, kStoreQueueLength);
  resolver_ = std::make_unique<RequestResolver>(*toolchains_);

  auto routing = std::make_unique<RoutingProvider>();
  pools_ = std::make_unique<ToolchainPools>(
      *routing, *jail_, [this](const auto& toolchain, bool starts_ahead, int serial) {
        return MakeWorkers(toolchain, starts_ahead, serial);
      });
  ServeToolchains(*toolchains_->Current());
  AdmissionLimits limits;
  limits.running_max = SlotsOf(setting_.config.workers);
  limits.queue.length_max = static_cast<size_t>(setting_.config.queue.length);
  limits.free_memory_bytes_min = setting_.config.workers.memory_min_bytes;
  limits.pressure_percent_max =
      static_cast<double>(setting_.config.workers.memory_pressure_percent);
  auto admission =
      std::make_unique<AdmissionProvider>(std::move(routing), limits, memory_, clock_, *timer_);
  admission_ = admission.get();
  auto caching =
      std::make_unique<CachingProvider>(std::move(admission), store_->index(), store_->blobs(),
                                        negatives_, clock_, *executor_, DescriptionOf);
  auto coalescing = std::make_unique<CoalescingProvider>(Audited(std::move(caching), *admission_),
                                                         clock_, *timer_);
  chain_ = std::make_unique<CountingProvider>(std::move(coalescing), asks_);
}

std::unique_ptr<CompilationProvider> RunningDaemon::Audited(
    std::unique_ptr<CompilationProvider> caching, CompilationProvider& compiler) {
  const int64_t one_in = setting_.config.audit.one_in;
  if (one_in == 0) return caching;
  const auto is_idle = [this] {
    const AdmissionStats stats = admission_->Stats();
    return stats.running == 0 && stats.queued == 0;
  };
  auto auditing = std::make_unique<AuditingProvider>(
      std::move(caching), static_cast<uint64_t>(one_in),
      AuditingProvider::Parts{audit_counters_, compiler, store_->index(), *executor_, is_idle,
                              clock_, *timer_});
  auditing_ = auditing.get();
  return auditing;
}

void RunningDaemon::ServeToolchains(const DiscoveredToolchains& found) {
  pools_->Serve(found.List(), found.HasDefault(), limits::kToolchainEndingTime);
}

ToolchainWorkers RunningDaemon::MakeWorkers(const std::shared_ptr<const Toolchain>& toolchain,
                                            bool starts_ahead, int serial) {
  WorkerPoolOptions options = PoolOptions(*toolchain, serial);
  options.eager = starts_ahead;
  auto pooled = std::make_unique<PooledProvider>(toolchain, std::move(options), clock_);
  WorkerPool& pool = pooled->pool();
  auto checking = std::make_shared<CheckingProvider>(
      toolchain, std::move(pooled),
      [this](const auto& changed, const auto& why) { toolchains_->NoteChange(changed, why); });
  return {checking, std::shared_ptr<WorkerPool>(checking, &pool),
          [&checked = *checking] { return !checked.HasChanged(); }};
}

WorkerPoolOptions RunningDaemon::PoolOptions(const Toolchain& toolchain, int serial) const {
  const Config::Workers& config = setting_.config.workers;
  const std::string directory = fmt::format("{}/{}-{}", setting_.paths.WorkDirectory(),
                                            toolchain.fingerprint.ShortHex(), serial);
  const std::string zygote = directory + "-zygote";
  WorkerPoolOptions options;
  options.zygote = toolchain.interpreter.empty()
                       ? NativeZygoteCommand(toolchain, setting_.native_worker, zygote, allocator_)
                       : TritonZygoteCommand(toolchain, setting_.worker_script, zygote, allocator_);
  options.zygote.jail = jail_;
  options.zygote.groups = worker_groups_;
  options.worker_limits = worker_limits_;
  options.work_directory = directory;
  options.slots = SlotsOf(config);
  options.jobs_ask = [this] { return asks_.JobsAsk(); };
  options.compile_time_max = config.compile_time;
  options.idle_time = config.idle_time;
  options.idle_workers_min = static_cast<int>(config.idle_min);
  options.zygote_idle_time = config.zygote_idle_time;
  options.crashes_per_hour = static_cast<int>(config.crashes_per_hour);
  options.labels = {{"toolchain", toolchain.Name()}, {"fingerprint", toolchain.fingerprint.Hex()}};
  return options;
}

std::set<uid_t> UsersNamed(const std::vector<std::string>& names) {
  std::set<uid_t> users;
  for (const std::string& name : names) {
    const absl::StatusOr<uid_t> uid = FindUser(name);
    if (uid.ok()) {
      users.insert(*uid);
    } else {
      LogWarning("tunings.shared_by names a user who cannot be found: that one shares none",
                 {{"user", name}, {"error", Message(uid.status())}});
    }
  }
  return users;
}

absl::Status RunningDaemon::StartServing() {
  parts_ = std::make_unique<RpcDependencies>(RpcDependencies{
      *resolver_, *chain_, *toolchains_, store_->index(), store_->blobs(), *own_, user_rate_limit_,
      *read_executor_, *bundle_executor_, gate_, memo_, searches_, *store_, activity_, *leases_,
      [this](const Digest& key) { return hot_->NoteUse(key); },
      [this](const Digest& asked, const Digest& stored) {
        return CompareToolchains(ToolchainDirectory(), OsFilesystem(), asked, stored);
      },
      shared_uid_, UsersNamed(setting_.config.tunings.shared_by)});
  if (shared_uid_) {
    LogWarning("users that this user namespace does not map keep nothing of their own",
               {{"uid", *shared_uid_}});
  }
  saving_.emplace(BackgroundTask::Work{
      .run = [this](const auto&) { SaveBooks(); },
      .is_due = [this] { return activity_.HasChanged() || leases_->HasChanged(); },
      .look_time = limits::kActivitySaveTime});
  actions_ = MakeActions();
  servers_ = std::make_unique<PrincipalServers>(*parts_, actions_);
  light_server_ = std::make_unique<LightServer>(*parts_);
  KILN_RETURN_IF_ERROR(light_server_->Start());
  KILN_ASSIGN_OR_RETURN(const std::vector<WantedSocket> wanted,
                        WantedSockets(setting_.config.sockets, setting_.paths));
  KILN_ASSIGN_OR_RETURN(std::vector<Listener::Socket> sockets,
                        OpenSockets(wanted, std::move(setting_.activated_sockets)));
  listener_ = std::make_unique<Listener>(std::move(sockets), *servers_, light_server_.get(),
                                         ListenerLimits::Within(DescriptorsMax()));
  return listener_->Start();  // the first connection may ask for the stats, the listener's included
}

AdminActions RunningDaemon::MakeActions() {
  AdminActions actions;
  actions.state = [this](auto& out) { ShowState(out); };
  actions.evict_to = [this](const CallContext& context,
                            uint64_t target_bytes) -> absl::StatusOr<uint64_t> {
    KILN_ASSIGN_OR_RETURN(const EvictionResult result, quota_->EvictDownTo(context, target_bytes));
    return result.evicted;
  };
  actions.verify = [this](const CallContext& context, const VerificationCallback& report) {
    return Verify(context, report);
  };
  actions.negatives = &negatives_;
  actions.trusted_keys = setting_.trusted_keys;
  actions.toolchains = [this] { return Toolchains(); };
  actions.reload_toolchains = [this](BackgroundTask::Done done) {
    toolchains_->Reload(std::move(done));
  };
  actions.set_default_toolchain = [this](const std::string& selector) {
    return toolchains_->SetDefault(selector);
  };
  actions.add_toolchain = [this](const ToolchainAddition& wanted) {
    return installations_->Add(wanted);
  };
  actions.remove_toolchain = [this](const std::string& selector) {
    return installations_->Remove(selector);
  };
  actions.drain = setting_.request_drain;
  return actions;
}

absl::Status RunningDaemon::Verify(const CallContext& context, const VerificationCallback& report) {
  // Two at a time would read everything twice and find the same.
  const std::unique_lock only(verifying_, std::try_to_lock);
  if (!only) return FailedPrecondition("a verification is under way already; wait for its end");
  return VerifyArtifacts(context, quota_->index(), quota_->blobs(), store_->index(), report)
      .status();
}

DaemonState RunningDaemon::State() const {
  return DaemonState::Of(draining_, store_->Stats().degraded);
}

void RunningDaemon::ShowState(admin::v1::GetStatsResponse& out) const {
  const DaemonState state = State();
  out.set_version(KILN_VERSION);
  out.set_started_unix_ms(started_unix_ms_);
  out.set_state(state.state);
  out.set_state_reason(ToUtf8(state.reason));
  out.set_compile_path(chain_->Describe());
  out.set_store(store_->Describe());
  for (const ToolchainPool& served : pools_->List()) {
    admin::v1::ToolchainStats& toolchain = *out.add_toolchains();
    toolchain.set_name(served.toolchain->Name());
    toolchain.set_fingerprint(std::string(served.toolchain->fingerprint.Bytes()));
    toolchain.set_state(ToUtf8(served.stats.zygote));
  }
  out.set_toolchain_change(ToUtf8(toolchains_->last_change()));
  out.set_jail(std::string(NameOf(jail_->mode())));
  for (const std::string& problem : jail_->Problems()) out.add_jail_problems(ToUtf8(problem));
  for (const std::string& limit : plain_limits_) out.add_plain_limits(ToUtf8(limit));
}

uint64_t RunningDaemon::ArtifactCount() const {
  const uint64_t records = store_->Stats().artifacts;
  // They are records like any other to the store.
  return records - std::min(records, user_quota_->Stats().entries);
}

ToolchainsHere RunningDaemon::Toolchains() const {
  const ServedToolchains::Found current = toolchains_->Current();
  const std::vector<ToolchainPool> pools = pools_->List();
  ToolchainsHere here;
  for (const auto& toolchain : current->List()) {
    const auto pool = std::find_if(pools.begin(), pools.end(), [&](const ToolchainPool& each) {
      return each.toolchain->fingerprint == toolchain->fingerprint;
    });
    here.held.push_back({toolchain, pool == pools.end() ? "" : pool->stats.zygote,
                         RemarksOn(*toolchain), current->DefaultKinds(*toolchain)});
  }
  here.has_default = current->HasDefault();
  here.rejected = current->rejected();
  here.directories = setting_.toolchain_directories;
  here.default_selector = current->default_selector();
  here.is_default_configured = toolchains_->IsDefaultConfigured();
  return here;
}

// The hot directory is empty when the daemon starts, and the store is not. The quota of the user
// cache counts what the rebuild reads anyway.
void RunningDaemon::StartRebuild() {
  rebuild_ = std::thread([this] {
    const absl::Status status = hot_->Rebuild(
        quota_->index(), quota_->blobs(), [this] { return stop_rebuild_.load(); },
        [this](const FoundArtifact& found) { user_quota_->TakeStock(found); });
    if (!status.ok() && !absl::IsCancelled(status)) {
      LogWarning("hot directory not rebuilt", {{"why", Message(status)}});
    }
  });
}

void RunningDaemon::PublishUsed(const std::vector<UseCount>& uses) {
  publishing_executor_->Run([this, uses] {
    for (const UseCount& use : uses) {
      if (!stop_rebuild_) (void)hot_->PublishFrom(*quota_, *quota_, use.key);
    }
  });
}

void RunningDaemon::Drain(SteadyTime deadline) {
  draining_ = true;
  stop_rebuild_ = true;
  // New connections are refused at once, or wait in systemd's socket for the next daemon.
  listener_->Stop();
  servers_->SetServing(false);
  toolchains_->Refuse();  // answers those that wait for it
  gate_.Close();
  if (!gate_.AwaitEmpty(deadline)) LogWarning("requests under way are cancelled");
  // Answers have left the compile path; this is for their last bytes. Connections that only stand
  // open would otherwise be waited for, and a client that is not in a call does not notice that it
  // should close.
  const SteadyTime farewell = clock_.Now() + kFarewellTime;
  light_server_->Shutdown(farewell);
  servers_->Shutdown(farewell);
  StopThreads();
}

void RunningDaemon::SaveBooks() {
  if (activity_.HasChanged()) activity_.Save();
  if (leases_ != nullptr && leases_->HasChanged()) leases_->Save();
}

void RunningDaemon::StopThreads() {
  stop_rebuild_ = true;
  if (rebuild_.joinable()) rebuild_.join();
  saving_.reset();
  if (toolchains_ != nullptr) toolchains_->Stop();
  if (pools_ != nullptr) pools_->Shutdown();
  // Runs what the pools' last answers have queued, while the chain that it belongs to is there.
  executor_.reset();
  read_executor_.reset();
  bundle_executor_.reset();
  publishing_executor_.reset();
  SaveBooks();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Assemble(DaemonSetting setting) {
  // Debian's Abseil checks the order of gRPC's locks: slow, and a mere doubt ends the daemon.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  auto daemon = std::make_unique<RunningDaemon>(std::move(setting));
  KILN_RETURN_IF_ERROR(daemon->Start());
  return daemon;
}

}  // namespace kiln
