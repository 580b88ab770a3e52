#include "daemon/rpc/sockets/listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

UniqueFd NewSocket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

bool Connect(const UniqueFd& fd, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Owns nothing where nobody listens.
UniqueFd Connect(const std::string& path) {
  UniqueFd fd = NewSocket();
  if (!Connect(fd, path)) fd.Reset();
  return fd;
}

// Blocks until the other end has closed.
void AwaitEnd(const UniqueFd& fd) {
  pollfd waiting{fd.get(), POLLRDHUP, 0};
  ASSERT_EQ(::poll(&waiting, 1, 60'000), 1);
}

// What a listener itself takes when it starts.
constexpr int kListenerDescriptors = 2;

// While it lives there are `left` more descriptors than when it was made. REQUIRES: then no other
// thread was in a system call that takes one, were it only for a moment, as accept does.
class DescriptorShortage {
 public:
  explicit DescriptorShortage(int left) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit low = before_;
    // The limit is one on their numbers, and some numbers above the lowest free one may be in use.
    int number = 0;
    for (int found = 0; found < left || IsInUse(number); ++number) found += !IsInUse(number);
    low.rlim_cur = static_cast<rlim_t>(number);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  ~DescriptorShortage() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  static bool IsInUse(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

  rlimit before_{};
};

// Keeps what it gets.
class KeepingSink final : public ConnectionSink {
 public:
  absl::Status Serve(UniqueFd connection, const Principal& principal) override {
    const std::lock_guard lock(mutex_);
    if (refuses_) return Unavailable("the daemon is shutting down");
    kept_.emplace_back(std::move(connection), principal);
    changed_.notify_all();
    return absl::OkStatus();
  }
  void OnClosed(const Principal&) override {
    const std::lock_guard lock(mutex_);
    ++closed_;
    changed_.notify_all();
  }

  void Refuse() {
    const std::lock_guard lock(mutex_);
    refuses_ = true;
  }
  void AwaitKept(size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(
        changed_.wait_for(lock, std::chrono::minutes(1), [&] { return kept_.size() >= count; }));
  }
  void AwaitClosed(size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [&] { return closed_ >= count; }));
  }
  // As gRPC does: shuts down before it closes.
  void DropAll() {
    const std::lock_guard lock(mutex_);
    for (const auto& [connection, principal] : kept_) ::shutdown(connection.get(), SHUT_RDWR);
    kept_.clear();
  }
  // As gRPC does where the listener comes late: epoll reports nothing of a closed descriptor.
  void CloseAll() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
  }
  bool HasAny() {
    const std::lock_guard lock(mutex_);
    return !kept_.empty();
  }
  Principal last() {
    const std::lock_guard lock(mutex_);
    return kept_.back().second;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<UniqueFd, Principal>> kept_;
  size_t closed_ = 0;
  bool refuses_ = false;
};

TEST(ListenerLimitsTest, LeaveDescriptorsToTheRestOfTheDaemon) {
  const ListenerLimits plenty = ListenerLimits::Within(65'536);
  EXPECT_EQ(plenty.connections_max, limits::kConnectionsMax);
  EXPECT_EQ(plenty.connections_per_principal_max, limits::kConnectionsPerPrincipalMax);
  EXPECT_EQ(ListenerLimits::Within(20'000).connections_max, limits::kConnectionsMax);
  EXPECT_EQ(ListenerLimits::Within(17'000).connections_max, 17'000 - limits::kDescriptorsKept);
  const ListenerLimits few = ListenerLimits::Within(4096);
  EXPECT_EQ(few.connections_max, 2048u);
  EXPECT_EQ(few.connections_per_principal_max, 1638u);
  EXPECT_EQ(ListenerLimits::Within(RLIM_INFINITY).connections_max, limits::kConnectionsMax);
}

class ListenerTest : public ::testing::Test {
 protected:
  // Listens, and accepts nobody yet.
  void Open(const ListenerLimits& limits = {}, ConnectionSink* light = nullptr) {
    std::vector<Listener::Socket> sockets;
    for (const bool is_admin : {false, true}) {
      auto file = SocketFile::Open({is_admin ? admin_ : path_, 0600, std::nullopt});
      ASSERT_TRUE(file.ok()) << file.status();
      sockets.push_back({*std::move(file), is_admin});
    }
    listener_ = std::make_unique<Listener>(std::move(sockets), sink_, light, limits);
  }
  void Start(const ListenerLimits& limits = {}) {
    Open(limits);
    const absl::Status started = listener_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  TempDirectory directory_;
  const std::string path_ = directory_.File("kilnd.sock");
  const std::string admin_ = directory_.File("admin.sock");
  KeepingSink sink_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, TellsWhoConnectsAndWhere) {
  Start();
  const UniqueFd client = Connect(path_);
  sink_.AwaitKept(1);
  EXPECT_EQ(sink_.last(), (Principal{::getuid(), false}));
  const UniqueFd admin = Connect(admin_);
  sink_.AwaitKept(2);
  EXPECT_EQ(sink_.last(), (Principal{::getuid(), true}));
}

TEST_F(ListenerTest, FirstByteDecidesWhoServes) {
  std::vector<Listener::Socket> sockets;
  for (const bool is_admin : {false, true}) {
    auto file = SocketFile::Open({is_admin ? admin_ : path_, 0600, std::nullopt});
    ASSERT_TRUE(file.ok()) << file.status();
    sockets.push_back({*std::move(file), is_admin});
  }
  KeepingSink light;
  Listener listener(std::move(sockets), sink_, &light);
  ASSERT_TRUE(listener.Start().ok());
  const UniqueFd silent = Connect(path_);
  UniqueFd gone = Connect(path_);
  const UniqueFd grpc = Connect(path_);
  ASSERT_EQ(::send(grpc.get(), "PRI * HTTP", 10, 0), 10);
  sink_.AwaitKept(1);
  const UniqueFd kiln = Connect(path_);
  ASSERT_EQ(::send(kiln.get(), "k", 1, 0), 1);
  light.AwaitKept(1);
  EXPECT_EQ(light.last(), (Principal{::getuid(), false}));
  EXPECT_EQ(listener.connections(), 4u);
  // One that ends undecided was nobody's.
  gone.Reset();
  while (listener.connections() != 3) std::this_thread::yield();
  light.DropAll();
  light.AwaitClosed(1);
  const UniqueFd admin = Connect(admin_);
  ASSERT_EQ(::send(admin.get(), "k", 1, 0), 1);
  light.AwaitKept(1);
  EXPECT_TRUE(light.last().is_admin);
  listener.Stop();
  AwaitEnd(silent);
}

TEST_F(ListenerTest, ConnectionThatNeverSaysAnythingEnds) {
  KeepingSink light;
  Open({.silent_time = std::chrono::milliseconds(50)}, &light);
  ASSERT_TRUE(listener_->Start().ok());
  const UniqueFd grpc = Connect(path_);
  ASSERT_EQ(::send(grpc.get(), "P", 1, 0), 1);
  sink_.AwaitKept(1);
  const UniqueFd silent[] = {Connect(path_), Connect(admin_)};
  for (const UniqueFd& each : silent) AwaitEnd(each);
  while (listener_->connections() != 1) std::this_thread::yield();
}

TEST_F(ListenerTest, CountsUntilEitherSideEnds) {
  Start();
  UniqueFd client = Connect(path_);
  const UniqueFd second = Connect(path_);
  sink_.AwaitKept(2);
  while (listener_->connections() != 2) std::this_thread::yield();
  client.Reset();
  sink_.AwaitClosed(1);
  EXPECT_EQ(listener_->connections(), 1u);
  // Both are still held by the sink; the one whose client is there is the second.
  sink_.DropAll();
  sink_.AwaitClosed(2);
  EXPECT_EQ(listener_->connections(), 0u);
  AwaitEnd(second);
}

TEST_F(ListenerTest, ConnectionThatIsClosedWithoutAHangUpCountsNoMore) {
  Start({.check_time = std::chrono::milliseconds(20)});
  const UniqueFd first = Connect(path_);
  sink_.AwaitKept(1);
  sink_.CloseAll();
  // Its descriptor has the first one's number.
  const UniqueFd second = Connect(path_);
  sink_.AwaitKept(1);
  sink_.AwaitClosed(1);
  EXPECT_EQ(listener_->connections(), 1u);
  sink_.CloseAll();
  sink_.AwaitClosed(2);
  EXPECT_EQ(listener_->connections(), 0u);
}

TEST_F(ListenerTest, WhatWasClosedWithoutAHangUpMakesRoomAtTheLimit) {
  Start({.connections_max = 1, .check_time = std::chrono::hours(1)});
  const UniqueFd first = Connect(path_);
  sink_.AwaitKept(1);
  sink_.CloseAll();
  UniqueFd second;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  do {  // the listener may have checked a moment ago
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    second = Connect(path_);
    pollfd waiting{second.get(), POLLRDHUP, 0};
    ASSERT_GE(::poll(&waiting, 1, 30), 0);
  } while (!sink_.HasAny());
  sink_.AwaitClosed(1);
}

TEST_F(ListenerTest, ConnectionOverTheLimitIsClosedAndRoomIsUsedAgain) {
  Start({.connections_max = 2, .connections_per_principal_max = 100});
  UniqueFd first = Connect(path_);
  const UniqueFd second = Connect(path_);
  sink_.AwaitKept(2);
  const UniqueFd third = Connect(path_);
  AwaitEnd(third);
  EXPECT_EQ(listener_->refused(), 1u);
  // An operator gets in all the same.
  const UniqueFd admin = Connect(admin_);
  sink_.AwaitKept(3);
  first.Reset();
  sink_.AwaitClosed(1);
  const UniqueFd admin_gone_too = Connect(admin_);
  sink_.AwaitKept(4);
}

TEST_F(ListenerTest, OnePrincipalCannotTakeAllConnections) {
  Start({.connections_max = 100, .connections_per_principal_max = 1});
  const UniqueFd first = Connect(path_);
  sink_.AwaitKept(1);
  const UniqueFd second = Connect(path_);
  AwaitEnd(second);
}

TEST_F(ListenerTest, ConnectionsWaitWhileThereIsNoDescriptor) {
  Open();
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Connect(path_));
  {
    const DescriptorShortage shortage(kListenerDescriptors);
    ASSERT_TRUE(listener_->Start().ok());
    while (listener_->refused() == 0) std::this_thread::yield();
    EXPECT_EQ(listener_->connections(), 0u);
  }
  sink_.AwaitKept(3);
  EXPECT_EQ(listener_->refused(), 1u);
}

TEST_F(ListenerTest, DescriptorsOfAConnectionThatEndsAreUsedAgain) {
  Open();
  const UniqueFd first = Connect(path_);
  const UniqueFd second = Connect(path_);
  const DescriptorShortage shortage(kListenerDescriptors + 1);
  ASSERT_TRUE(listener_->Start().ok());
  sink_.AwaitKept(1);
  while (listener_->refused() == 0) std::this_thread::yield();
  // The listener has noticed; the sink holds the descriptor.
  ASSERT_EQ(::shutdown(first.get(), SHUT_RDWR), 0);
  sink_.AwaitClosed(1);
  sink_.DropAll();
  sink_.AwaitKept(1);
}

TEST_F(ListenerTest, PeerThatIsGoneBeforeItIsAcceptedCountsNoMore) {
  Open();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Connect(path_));  // and closed at once
  const UniqueFd staying = Connect(path_);
  ASSERT_TRUE(listener_->Start().ok());
  sink_.AwaitClosed(3);
  sink_.AwaitKept(4);
  while (listener_->connections() != 1) std::this_thread::yield();
  EXPECT_EQ(listener_->refused(), 0u);
}

TEST_F(ListenerTest, ConnectionThatTheSinkRefusesIsClosedAndCounted) {
  Start();
  sink_.Refuse();
  const UniqueFd client = Connect(path_);
  AwaitEnd(client);
  while (listener_->refused() == 0) std::this_thread::yield();
  EXPECT_EQ(listener_->refused(), 1u);
  EXPECT_EQ(listener_->connections(), 0u);
}

TEST_F(ListenerTest, RemovedSocketFileEndsNothingButNewConnections) {
  Start();
  const UniqueFd before = Connect(path_);
  sink_.AwaitKept(1);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  EXPECT_FALSE(Connect(path_));
  const UniqueFd admin = Connect(admin_);
  sink_.AwaitKept(2);
  while (listener_->connections() != 2) std::this_thread::yield();
  // Somebody else's by now.
  WriteFileOrDie(path_, "");
  listener_->Stop();
  EXPECT_EQ(::access(path_.c_str(), F_OK), 0);
  EXPECT_NE(::access(admin_.c_str(), F_OK), 0);
}

TEST_F(ListenerTest, StopRemovesTheNames) {
  Start();
  listener_->Stop();
  EXPECT_FALSE(Connect(path_));
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
  listener_->Stop();
}

}  // namespace
}  // namespace kiln
