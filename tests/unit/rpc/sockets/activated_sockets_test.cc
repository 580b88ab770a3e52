#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "daemon/rpc/sockets/open_sockets.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// As systemd has them: at these numbers, and on through exec.
constexpr int kFirstPassed = 3;

void SetVariables(pid_t pid, const std::string& count) {
  ::setenv("LISTEN_PID", fmt::format("{}", pid).c_str(), 1);
  ::setenv("LISTEN_FDS", count.c_str(), 1);
  ::setenv("LISTEN_FDNAMES", "x", 1);
}

// What TakeActivatedSockets gives, one line a socket, or its error; then what it leaves behind.
std::string Taken() {
  std::string text;
  const auto sockets = TakeActivatedSockets();
  if (!sockets.ok()) {
    text = fmt::format("{}: {}\n", absl::StatusCodeToString(sockets.status().code()),
                       Message(sockets.status()));
  } else {
    for (const SocketFile& file : *sockets) {
      text += fmt::format("{} {}{}{}\n", file.fd(), file.path(),
                          ::fcntl(file.fd(), F_GETFD) & FD_CLOEXEC ? " close-on-exec" : "",
                          ::fcntl(file.fd(), F_GETFL) & O_NONBLOCK ? " non-blocking" : "");
    }
  }
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) {
    if (::getenv(name) != nullptr) text += fmt::format("{} is still set\n", name);
  }
  return text;
}

// Runs Taken() in a process of its own, whose descriptors from the third on are `passed`; `prepare`
// sets its variables.
std::string TakenByAProcess(
    const std::vector<int>& passed, const std::function<void()>& prepare = [] {}) {
  int report[2];
  EXPECT_EQ(::pipe(report), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // Out of the way of the numbers that are about to be taken.
    constexpr int kOut = 500;
    const int out = ::fcntl(report[1], F_DUPFD_CLOEXEC, kOut);
    std::vector<int> copies;
    for (const int fd : passed) copies.push_back(::fcntl(fd, F_DUPFD, kOut));
    for (size_t i = 0; i < copies.size(); ++i) {
      ::dup2(copies[i], kFirstPassed + static_cast<int>(i));
    }
    SetVariables(::getpid(), fmt::format("{}", passed.size()));
    prepare();
    const std::string text = Taken();
    const bool was_written = ::write(out, text.data(), text.size()) == ssize_t(text.size());
    ::_exit(was_written ? 0 : 1);
  }
  ::close(report[1]);
  const UniqueFd in(report[0]);
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = ::read(in.get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(size));
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return text;
}

class ActivatedSocketsTest : public ::testing::Test {
 protected:
  // A blocking socket, as a unit's default is. `name` is that of a file, or begins with @ and is in
  // no file system.
  UniqueFd Bound(const std::string& name, int type = SOCK_STREAM) {
    UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    const std::string path = name[0] == '@' ? name : directory_.File(name);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    return fd;
  }
  UniqueFd Listening(const std::string& name) {
    UniqueFd fd = Bound(name);
    EXPECT_EQ(::listen(fd.get(), 5), 0);
    return fd;
  }

  TempDirectory directory_;
};

TEST_F(ActivatedSocketsTest, TakesThemReadyForUseAndClearsTheVariables) {
  const UniqueFd first = Listening("kilnd.sock");
  const UniqueFd second = Listening("admin.sock");
  EXPECT_EQ(TakenByAProcess({first.get(), second.get()}),
            fmt::format("3 {} close-on-exec non-blocking\n4 {} close-on-exec non-blocking\n",
                        directory_.File("kilnd.sock"), directory_.File("admin.sock")));
}

TEST_F(ActivatedSocketsTest, NamesStayWithSystemd) {
  const UniqueFd socket = Listening("kilnd.sock");
  ASSERT_THAT(TakenByAProcess({socket.get()}), StartsWith("3 "));
  EXPECT_EQ(::access(directory_.File("kilnd.sock").c_str(), F_OK), 0);
}

TEST_F(ActivatedSocketsTest, TakesNoneWithoutTheVariables) {
  const UniqueFd socket = Listening("kilnd.sock");
  EXPECT_EQ(
      TakenByAProcess({socket.get()},
                      [] {
                        for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) {
                          ::unsetenv(name);
                        }
                      }),
      "");
}

TEST_F(ActivatedSocketsTest, VariablesForAnotherProcessAreClearedOnly) {
  const UniqueFd socket = Listening("kilnd.sock");
  EXPECT_EQ(TakenByAProcess({socket.get()}, [] { SetVariables(::getppid(), "1"); }), "");
}

TEST_F(ActivatedSocketsTest, CountThatIsNoNumber) {
  EXPECT_THAT(TakenByAProcess({}, [] { SetVariables(::getpid(), "many"); }),
              HasSubstr("LISTEN_FDS"));
}

TEST_F(ActivatedSocketsTest, NamesADescriptorThatIsNotAListeningStream) {
  const UniqueFd good = Listening("kilnd.sock");
  const UniqueFd file(::open("/dev/null", O_RDWR));
  const UniqueFd only_bound = Bound("bound.sock");
  const UniqueFd datagrams = Bound("datagrams.sock", SOCK_DGRAM);
  const UniqueFd internet(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(internet.get(), reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback),
            0);
  ASSERT_EQ(::listen(internet.get(), 5), 0);
  for (const UniqueFd* bad : {&file, &only_bound, &datagrams, &internet}) {
    const std::string taken = TakenByAProcess({good.get(), bad->get()});
    EXPECT_THAT(taken, StartsWith("FAILED_PRECONDITION"));
    EXPECT_THAT(taken, HasSubstr("descriptor 4 "));
  }
}

TEST_F(ActivatedSocketsTest, RefusesASocketWithoutAPath) {
  const UniqueFd abstract = Listening(fmt::format("@kiln-test-{}", ::getpid()));
  const std::string taken = TakenByAProcess({abstract.get()});
  EXPECT_THAT(taken, StartsWith("FAILED_PRECONDITION"));
  EXPECT_THAT(taken, HasSubstr("ListenStream=/path"));
}

}  // namespace
}  // namespace kiln
