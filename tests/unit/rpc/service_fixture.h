// The services over real connections of both ways in, with a compile path that a test controls.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "daemon/policy/negative_cache.h"
#include "daemon/rpc/light/light_server.h"
#include "daemon/rpc/principal_servers.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"
#include "storage/base/thread_timer.h"
#include "storage/memory_store.h"
#include "storage/notifying_store.h"
#include "storage/user_cache.h"
#include "storage/user_rate_limit.h"
#include "tests/testing/fake_catalog.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/faulty_store.h"

namespace kiln {

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest();

  // A connection of `principal`, as the listener would bring it.
  // `socket` becomes another descriptor of the client's end.
  std::shared_ptr<grpc::Channel> Connect(const Principal& principal = {1000, false},
                                         UniqueFd* socket = nullptr);
  UniqueFd ConnectLight(const Principal& principal = {1000, false});
  static UniqueFd ConnectLight(LightServer& server, const Principal& principal = {1000, false});

  static v1::CompileRequest Request(const std::string& text = "module {}");
  // False: it is not so within a minute.
  static bool Comes(const std::function<bool()>& is_so);
  void AwaitHeld(size_t count);

  FakeClock clock_;
  Faults faults_;
  UserQuota user_quota_{UserQuotaLimits(), clock_};
  FaultyStore store_{
      std::make_unique<NotifyingStore>(std::make_unique<MemoryStore>(limits::kGiB, clock_),
                                       std::vector<ArtifactListener*>{&user_quota_}),
      faults_};
  UserCache own_{store_.index(), store_.blobs(), user_quota_, clock_};
  UserRateLimit user_rate_limit_{UserRateLimits(), clock_};
  FakeCatalog catalog_{{MakeTriton()}};
  RequestResolver resolver_{catalog_};
  ThreadTimer timer_;
  FakeProvider provider_{&timer_};
  ThreadExecutor executor_{1, 100};
  ThreadExecutor bundle_executor_{1, 100};
  RequestGate gate_;
  RequestMemo memo_{limits::kMiB};
  std::atomic<size_t> searches_{0};
  std::set<Digest> published_;
  Activity activity_{"/no/such/file", OsFilesystem(), clock_};
  WarmLeases leases_{"/no/such/file", WarmLeaseLimits(), OsFilesystem(), clock_};
  RpcDependencies parts_{
      resolver_,
      provider_,
      catalog_,
      store_.index(),
      store_.blobs(),
      own_,
      user_rate_limit_,
      executor_,
      bundle_executor_,
      gate_,
      memo_,
      searches_,
      store_,
      activity_,
      leases_,
      [this](const Digest& key) { return published_.contains(key); },
      [](const Digest&, const Digest&) { return std::vector<RequestDifference>(); }};
  AdminActions actions_;
  std::atomic<int> drains_{0};
  NegativeCache negatives_{clock_, std::chrono::minutes(10)};
  std::string default_;  // touched by one call at a time
  PrincipalServers servers_{parts_, actions_};
  LightServer light_server_{parts_};
  Gauge bytes_gauge_{"store_bytes", "", [this] { return store_.Stats().stored_bytes; }};
};

}  // namespace kiln
