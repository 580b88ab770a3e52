#include "storage/base/call_context.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace kiln {
namespace {

TEST(Cancellation, CallsEachCallbackOnce) {
  Cancellation cancellation;
  int calls = 0;
  const auto registration = cancellation.OnCancel([&] { ++calls; });
  cancellation.Cancel();
  cancellation.Cancel();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(cancellation.IsCancelled());
}

TEST(Cancellation, CallsALateCallbackAtOnce) {
  Cancellation cancellation;
  cancellation.Cancel();
  bool called = false;
  const auto registration = cancellation.OnCancel([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST(Cancellation, ForgetsADroppedRegistration) {
  Cancellation cancellation;
  bool called = false;
  {
    const auto registration = cancellation.OnCancel([&] { called = true; });
  }
  cancellation.Cancel();
  EXPECT_FALSE(called);
}

TEST(Cancellation, ACallbackMayDropItsOwnRegistration) {
  Cancellation cancellation;
  Cancellation::Registration registration;
  registration = cancellation.OnCancel([&] { registration.reset(); });
  cancellation.Cancel();
}

TEST(Cancellation, NoCallbackRunsAfterResetReturns) {
  for (int round = 0; round < 200; ++round) {
    Cancellation cancellation;
    std::atomic<bool> gone = false;
    auto registration = cancellation.OnCancel([&] { EXPECT_FALSE(gone); });
    std::thread canceller([&] { cancellation.Cancel(); });
    registration.reset();
    gone = true;
    canceller.join();
  }
}

TEST(StillWanted, ReportsCancellationAndDeadline) {
  CallContext context;
  EXPECT_TRUE(StillWanted(context, SystemClock()).ok());
  context.deadline = SystemClock().Now();
  EXPECT_EQ(StillWanted(context, SystemClock()).code(), absl::StatusCode::kDeadlineExceeded);
  context.cancellation.Cancel();
  EXPECT_EQ(StillWanted(context, SystemClock()).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace kiln
