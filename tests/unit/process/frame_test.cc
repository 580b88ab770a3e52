#include "daemon/process/frame.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "daemon/process/wake_event.h"
#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class FrameTest : public testing::Test {
 protected:
  FrameTest() {
    std::array<int, 2> sockets{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
    near_ = UniqueFd(sockets[0]);
    far_ = UniqueFd(sockets[1]);
  }

  void Write(std::string_view bytes) {
    ASSERT_EQ(write(near_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  UniqueFd near_;
  UniqueFd far_;
};

FrameStart SmallStart() {
  FrameStart start;
  start.type = FrameType::kResult;
  start.id = 0x01020304;
  start.header_bytes = 2;
  start.payload_bytes = 3;
  return start;
}

TEST_F(FrameTest, ReceivesASentFrame) {
  const std::string payload(3 * limits::kMiB, 'p');  // more than a socket buffers
  std::thread sender([&] {
    EXPECT_TRUE(SendFrame(near_.get(), FrameType::kCompile, 42, "{}", payload, {}).ok());
  });
  const auto frame = ReceiveFrame(far_.get(), {});
  sender.join();
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(frame->type, FrameType::kCompile);
  EXPECT_EQ(frame->id, 42u);
  EXPECT_EQ(frame->header, "{}");
  EXPECT_EQ(frame->payload, payload);
}

TEST_F(FrameTest, LayoutIsAsDocumented) {
  EXPECT_EQ(
      SmallStart().Encode(),
      std::string("KILN\x01\x00\x02\x00\x02\x00\x00\x00\x04\x03\x02\x01\x03\0\0\0\0\0\0\0", 24));
}

TEST_F(FrameTest, ByteByByteIsTheSameFrame) {
  const std::string bytes = SmallStart().Encode() + "{}abc";
  std::thread sender([&] {
    for (const char c : bytes) EXPECT_EQ(send(near_.get(), &c, 1, 0), 1);
  });
  const auto frame = ReceiveFrame(far_.get(), {});
  sender.join();
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(frame->payload, "abc");
}

TEST_F(FrameTest, EveryTruncationIsUnavailable) {
  const std::string bytes = SmallStart().Encode() + "{}abc";
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::array<int, 2> sockets{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
    UniqueFd near(sockets[0]);
    const UniqueFd far(sockets[1]);
    ASSERT_EQ(write(near.get(), bytes.data(), size), static_cast<ssize_t>(size));
    near.Reset();
    EXPECT_TRUE(absl::IsUnavailable(ReceiveFrame(far.get(), {}).status())) << size;
  }
}

TEST_F(FrameTest, EveryByteOfTheStartThatMattersIsChecked) {
  const std::string good = SmallStart().Encode();
  for (size_t i = 0; i < 8; ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    EXPECT_TRUE(absl::IsInternal(FrameStart::Decode(bad).status())) << i;
  }
}

TEST_F(FrameTest, LimitsHoldAtTheLimitAndOneBeyond) {
  FrameStart start = SmallStart();
  start.header_bytes = limits::kFrameHeaderBytesMax;
  start.payload_bytes = limits::kFramePayloadBytesMax;
  EXPECT_TRUE(FrameStart::Decode(start.Encode()).ok());
  start.header_bytes += 1;
  EXPECT_TRUE(absl::IsInternal(FrameStart::Decode(start.Encode()).status()));
  start.header_bytes = 2;
  start.payload_bytes += 1;
  EXPECT_TRUE(absl::IsInternal(FrameStart::Decode(start.Encode()).status()));
}

TEST_F(FrameTest, AnAnnouncementAloneTakesNoMemory) {
  FrameStart start = SmallStart();
  start.header_bytes = 0;
  start.payload_bytes = uint64_t{4} << 30;
  Write(start.Encode());
  EXPECT_TRUE(absl::IsInternal(ReceiveFrame(far_.get(), {}).status()));
}

TEST_F(FrameTest, DeadlineEndsReceiving) {
  FrameWait wait;
  wait.deadline = steady_clock::now() + milliseconds(5);
  EXPECT_TRUE(absl::IsDeadlineExceeded(ReceiveFrame(far_.get(), wait).status()));
}

TEST_F(FrameTest, DeadlineEndsSendingToSomeoneWhoDoesNotRead) {
  FrameWait wait;
  wait.deadline = steady_clock::now() + milliseconds(5);
  const std::string payload(8 * limits::kMiB, 'p');
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(SendFrame(near_.get(), FrameType::kCompile, 1, "", payload, wait)));
}

TEST_F(FrameTest, WakingEndsReceiving) {
  WakeEvent wake;
  ASSERT_TRUE(wake.Open().ok());
  FrameWait wait;
  wait.wake_fd = wake.fd();
  std::thread waker([&] { wake.Set(); });
  EXPECT_TRUE(absl::IsCancelled(ReceiveFrame(far_.get(), wait).status()));
  waker.join();
}

TEST_F(FrameTest, AWakeEventWakesAlsoWhereItWasSetBeforeItWasOpen) {
  WakeEvent wake;
  wake.Set();
  EXPECT_EQ(wake.fd(), -1);
  ASSERT_TRUE(wake.Open().ok());
  FrameWait wait;
  wait.wake_fd = wake.fd();
  EXPECT_TRUE(absl::IsCancelled(ReceiveFrame(far_.get(), wait).status()));
}

TEST_F(FrameTest, ClearedWakeEventDoesNotWake) {
  WakeEvent wake;
  ASSERT_TRUE(wake.Open().ok());
  wake.Set();
  wake.Clear();
  FrameWait wait;
  wait.wake_fd = wake.fd();
  wait.deadline = steady_clock::now() + milliseconds(5);
  EXPECT_TRUE(absl::IsDeadlineExceeded(ReceiveFrame(far_.get(), wait).status()));
}

TEST_F(FrameTest, SendingToAClosedSocketIsUnavailable) {
  far_.Reset();
  EXPECT_TRUE(absl::IsUnavailable(SendFrame(near_.get(), FrameType::kCompile, 1, "{}", "x", {})));
}

}  // namespace
}  // namespace kiln
