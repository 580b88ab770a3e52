#include "daemon/rpc/principal_servers.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string_view>

#include "tests/unit/rpc/service_fixture.h"

namespace kiln {
namespace {

class PrincipalServersTest : public ServiceTest {
 protected:
  // A connection that counts until OnClosed, whatever has become of its other end.
  absl::Status Serve(uid_t uid) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd client(ends[1]);
    return servers_.Serve(UniqueFd(ends[0]), {uid, false});
  }
};

TEST_F(PrincipalServersTest, PrincipalWithoutConnectionsMakesRoom) {
  for (uid_t uid = 0; uid < limits::kPrincipalsMax + 5; ++uid) {
    const absl::Status served = Serve(uid);
    ASSERT_TRUE(served.ok()) << served;
    servers_.OnClosed({uid, false});
  }
}

TEST_F(PrincipalServersTest, PrincipalWithAConnectionStays) {
  for (uid_t uid = 0; uid < limits::kPrincipalsMax; ++uid) ASSERT_TRUE(Serve(uid).ok());
  const uid_t other = limits::kPrincipalsMax;
  EXPECT_EQ(Serve(other).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Serve(7).ok());
  servers_.OnClosed({7, false});
  EXPECT_EQ(Serve(other).code(), absl::StatusCode::kResourceExhausted);
  servers_.OnClosed({7, false});
  EXPECT_TRUE(Serve(other).ok());
  EXPECT_EQ(Serve(7).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(PrincipalServersTest, OperatorsGetInWhereEverybodyElseIs) {
  for (uid_t uid = 1; uid <= limits::kPrincipalsMax; ++uid) ASSERT_TRUE(Serve(uid).ok());
  EXPECT_EQ(Serve(limits::kPrincipalsMax + 1).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Serve(0).ok());
  EXPECT_NE(Connect({0, true}), nullptr);
  EXPECT_NE(Connect({limits::kPrincipalsMax + 1, true}), nullptr);
}

TEST_F(PrincipalServersTest, ConnectionsThatNeverGreetOrCallEnd) {
  parts_.silent_time = std::chrono::milliseconds(100);
  PrincipalServers servers(parts_, actions_);
  for (const std::string_view said : {"", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd client(ends[1]);
    ASSERT_TRUE(servers.Serve(UniqueFd(ends[0]), {1000, false}).ok());
    ASSERT_EQ(::send(client.get(), said.data(), said.size(), 0), ssize_t(said.size()));
    pollfd hang_up{client.get(), 0, 0};
    EXPECT_EQ(::poll(&hang_up, 1, 60'000), 1) << said;
  }
}

TEST_F(PrincipalServersTest, ServesNobodyAfterShutdown) {
  ASSERT_TRUE(Serve(1).ok());
  servers_.Shutdown(SteadyTime::min());
  EXPECT_EQ(Serve(1).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Serve(2).code(), absl::StatusCode::kUnavailable);
  servers_.OnClosed({1, false});
  servers_.Shutdown(SteadyTime::min());
}

}  // namespace
}  // namespace kiln
