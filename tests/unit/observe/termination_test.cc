#include "daemon/observe/termination.h"

#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>
#include <thread>

namespace kiln {
namespace {

void ThrowInAThread() {
  LogUncaughtExceptions();
  std::thread([] { throw std::length_error("too long by far"); }).join();
}

TEST(TerminationDeathTest, AnExceptionIsLoggedBeforeItEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ThrowInAThread(), testing::KilledBySignal(SIGABRT),
              "ended by an exception.*length_error.*too long by far");
}

TEST(TerminationDeathTest, EndsWithoutAnExceptionToo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        LogUncaughtExceptions();
        std::terminate();
      },
      testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace kiln
