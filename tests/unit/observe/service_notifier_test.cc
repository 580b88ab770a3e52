#include "daemon/observe/service_notifier.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

// The service manager's end. `name` is what NOTIFY_SOCKET says of it: a path, or @ and the name of
// a socket that is in no file system.
class ManagerSocket {
 public:
  explicit ManagerSocket(const std::string& name)
      : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    EXPECT_EQ(::setenv("NOTIFY_SOCKET", name.c_str(), 1), 0);
  }
  ~ManagerSocket() { ::unsetenv("NOTIFY_SOCKET"); }

  // What was sent next; "" where nothing was. The kernel delivers before the sender goes on.
  std::string Next() {
    char text[4096];
    const ssize_t size = ::recv(fd_.get(), text, sizeof text, MSG_DONTWAIT);
    return size < 0 ? "" : std::string(text, static_cast<size_t>(size));
  }

 private:
  const UniqueFd fd_;
};

class ServiceNotifierTest : public ::testing::TestWithParam<bool> {
 protected:
  std::string Name() const {
    return GetParam() ? fmt::format("@kiln-test-{}", ::getpid()) : directory_.File("notify");
  }

  TempDirectory directory_;
  ServiceNotifier notifier_;
};

TEST_P(ServiceNotifierTest, TellsTheDaemonsLife) {
  ManagerSocket manager(Name());
  notifier_.Ready("serving: 3 artifacts");
  EXPECT_EQ(manager.Next(), "READY=1\nSTATUS=serving: 3 artifacts");
  notifier_.KeepAlive();
  EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  notifier_.Status("serving: 4 artifacts");
  EXPECT_EQ(manager.Next(), "STATUS=serving: 4 artifacts");
  notifier_.Stopping(seconds(30));
  EXPECT_EQ(manager.Next(), "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=30000000");
  EXPECT_EQ(manager.Next(), "");
}

TEST_P(ServiceNotifierTest, LineBreakInAStatusAssignsNothing) {
  ManagerSocket manager(Name());
  notifier_.Status("degraded\nMAINPID=1");
  EXPECT_EQ(manager.Next(), "STATUS=degraded MAINPID=1");
  notifier_.Ready("a\nb\n");
  EXPECT_EQ(manager.Next(), "READY=1\nSTATUS=a b ");
}

INSTANTIATE_TEST_SUITE_P(Sockets, ServiceNotifierTest, ::testing::Bool(),
                         [](const auto& socket) { return socket.param ? "Abstract" : "Path"; });

// All that a daemon says, and what it writes to its log in doing so.
std::string LogOfOneLife() {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  ServiceNotifier notifier;
  notifier.Ready("serving");
  notifier.KeepAlive();
  notifier.Status("serving");
  notifier.Stopping(seconds(1));
  return ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
}

TEST(ServiceNotifierAloneTest, SilentWithoutASocket) {
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_EQ(LogOfOneLife(), "");
}

TEST(ServiceNotifierAloneTest, SilentWhereNobodyListens) {
  const TempDirectory directory;
  for (const std::string& name : {directory.File("gone"), std::string("not a path")}) {
    ASSERT_EQ(::setenv("NOTIFY_SOCKET", name.c_str(), 1), 0);
    EXPECT_EQ(LogOfOneLife(), "");
  }
  ::unsetenv("NOTIFY_SOCKET");
}

TEST(WatchdogIntervalTest, HalfOfWhatTheUnitSays) {
  ASSERT_EQ(::setenv("WATCHDOG_USEC", "30000000", 1), 0);
  ::unsetenv("WATCHDOG_PID");
  EXPECT_EQ(WatchdogInterval(), seconds(15));
  ASSERT_EQ(::setenv("WATCHDOG_PID", fmt::format("{}", ::getpid()).c_str(), 1), 0);
  EXPECT_EQ(WatchdogInterval(), microseconds(15'000'000));
  // Meant for somebody else.
  ASSERT_EQ(::setenv("WATCHDOG_PID", fmt::format("{}", ::getppid()).c_str(), 1), 0);
  EXPECT_EQ(WatchdogInterval(), std::nullopt);
  ::unsetenv("WATCHDOG_PID");
  ::unsetenv("WATCHDOG_USEC");
  EXPECT_EQ(WatchdogInterval(), std::nullopt);
}

}  // namespace
}  // namespace kiln
