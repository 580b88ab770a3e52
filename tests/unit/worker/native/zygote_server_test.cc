#include "daemon/worker/native/zygote_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <future>
#include <thread>

namespace kiln {
namespace {

TEST(CheckForkableTest, AProcessWithOneThreadMayFork) {
  const absl::Status status = CheckForkable();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CheckForkableTest, NamesTheThreadsThatStay) {
  std::promise<void> done;
  std::thread thread([ended = done.get_future()] { ended.wait(); });
  ::pthread_setname_np(thread.native_handle(), "compiler-pool");
  const absl::Status status = CheckForkable();
  done.set_value();
  thread.join();
  EXPECT_THAT(status.message(), testing::HasSubstr("other threads running (compiler-pool)"));
}

}  // namespace
}  // namespace kiln
