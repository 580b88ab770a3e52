#include "daemon/rpc/listener.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

int Connect(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

// Blocks until the other end has closed.
void AwaitEnd(const UniqueFd& fd) {
  pollfd waiting{fd.get(), POLLRDHUP, 0};
  ASSERT_EQ(::poll(&waiting, 1, 60'000), 1);
}

// Keeps what it gets.
class KeepingSink final : public ConnectionSink {
 public:
  absl::Status Serve(UniqueFd connection, const Principal& principal) override {
    const std::lock_guard lock(mutex_);
    kept_.emplace_back(std::move(connection), principal);
    changed_.notify_all();
    return absl::OkStatus();
  }
  void OnClosed(const Principal&) override {
    const std::lock_guard lock(mutex_);
    ++closed_;
    changed_.notify_all();
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
  void DropFirst() {
    const std::lock_guard lock(mutex_);
    ::shutdown(kept_.front().first.get(), SHUT_RDWR);
    kept_.erase(kept_.begin());
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
};

class ListenerTest : public ::testing::Test {
 protected:
  void Start(const ListenerLimits& limits = {}) {
    std::vector<Listener::Socket> sockets;
    for (const bool is_admin : {false, true}) {
      auto file = SocketFile::Open({is_admin ? admin_ : path_, 0600, std::nullopt});
      ASSERT_TRUE(file.ok()) << file.status();
      sockets.push_back({*std::move(file), is_admin});
    }
    auto started = Listener::Start(std::move(sockets), sink_, limits);
    ASSERT_TRUE(started.ok()) << started.status();
    listener_ = *std::move(started);
  }

  TempDirectory directory_;
  const std::string path_ = directory_.File("kilnd.sock");
  const std::string admin_ = directory_.File("admin.sock");
  KeepingSink sink_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, TellsWhoConnectsAndWhere) {
  Start();
  const UniqueFd client(Connect(path_));
  sink_.AwaitKept(1);
  EXPECT_EQ(sink_.last(), (Principal{::getuid(), false}));
  const UniqueFd admin(Connect(admin_));
  sink_.AwaitKept(2);
  EXPECT_EQ(sink_.last(), (Principal{::getuid(), true}));
}

TEST_F(ListenerTest, CountsUntilEitherSideEnds) {
  Start();
  UniqueFd client(Connect(path_));
  const UniqueFd second(Connect(path_));
  sink_.AwaitKept(2);
  while (listener_->connections() != 2) continue;
  client.Reset();
  sink_.AwaitClosed(1);
  EXPECT_EQ(listener_->connections(), 1u);
  // Both are still held by the sink; the one whose client is there is the second.
  sink_.DropFirst();
  sink_.DropFirst();
  sink_.AwaitClosed(2);
  EXPECT_EQ(listener_->connections(), 0u);
  AwaitEnd(second);
}

TEST_F(ListenerTest, ConnectionOverTheLimitIsClosedAndRoomIsUsedAgain) {
  Start({.connections_max = 2, .connections_per_principal_max = 100});
  UniqueFd first(Connect(path_));
  const UniqueFd second(Connect(path_));
  sink_.AwaitKept(2);
  const UniqueFd third(Connect(path_));
  AwaitEnd(third);
  EXPECT_EQ(listener_->refused(), 1u);
  // An operator gets in all the same.
  const UniqueFd admin(Connect(admin_));
  sink_.AwaitKept(3);
  first.Reset();
  sink_.AwaitClosed(1);
  const UniqueFd admin_gone_too(Connect(admin_));
  sink_.AwaitKept(4);
}

TEST_F(ListenerTest, OnePrincipalCannotTakeAllConnections) {
  Start({.connections_max = 100, .connections_per_principal_max = 1});
  const UniqueFd first(Connect(path_));
  sink_.AwaitKept(1);
  const UniqueFd second(Connect(path_));
  AwaitEnd(second);
}

TEST_F(ListenerTest, RecoversFromDescriptorExhaustion) {
  Start();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<UniqueFd> clients;
  clients.emplace_back(Connect(path_));
  sink_.AwaitKept(1);
  // Sockets that exist already, so that connecting takes no further descriptor of the client's.
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < 3; ++i) waiting.emplace_back(::socket(AF_UNIX, SOCK_STREAM, 0));
  const UniqueFd highest(::dup(0));
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(highest.get()) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
  for (const UniqueFd& fd : waiting) {
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  while (listener_->refused() == 0) continue;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  sink_.AwaitKept(4);
}

TEST_F(ListenerTest, StopRemovesTheNames) {
  Start();
  listener_->Stop();
  EXPECT_EQ(Connect(path_), -1);
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
  listener_->Stop();
}

}  // namespace
}  // namespace kiln
