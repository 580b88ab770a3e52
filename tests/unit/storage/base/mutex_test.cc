#include "storage/base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace kiln {
namespace {

class Flag {
 public:
  void Set() {
    MutexLock lock(mutex_);
    is_set_ = true;
    changed_.NotifyAll();
  }
  void WaitUntilSet() {
    MutexLock lock(mutex_);
    while (!is_set_) changed_.Wait(mutex_);
  }
  bool WaitFor(std::chrono::milliseconds time) {
    MutexLock lock(mutex_);
    return changed_.WaitFor(mutex_, time, [this]() KILN_REQUIRES(mutex_) { return is_set_; });
  }
  bool CanLock() {
    if (!mutex_.TryLock()) return false;
    mutex_.Unlock();
    return true;
  }
  Mutex& mutex() { return mutex_; }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_set_ KILN_GUARDED_BY(mutex_) = false;
};

bool OtherThreadCanLock(Flag& flag) {
  bool can = false;
  std::thread([&] { can = flag.CanLock(); }).join();
  return can;
}

TEST(MutexTest, LockIsHeldUntilTheEndOfTheScope) {
  Flag flag;
  {
    MutexLock lock(flag.mutex());
    EXPECT_FALSE(OtherThreadCanLock(flag));
  }
  EXPECT_TRUE(OtherThreadCanLock(flag));
}

TEST(MutexTest, LockCanBeReleasedAndTakenAgain) {
  Flag flag;
  MutexLock lock(flag.mutex());
  lock.Unlock();
  EXPECT_TRUE(OtherThreadCanLock(flag));
  lock.Lock();
  EXPECT_FALSE(OtherThreadCanLock(flag));
}

TEST(CondVarTest, WaitEndsWhenAnotherThreadNotifies) {
  Flag flag;
  std::thread setter([&] { flag.Set(); });
  flag.WaitUntilSet();
  EXPECT_TRUE(flag.WaitFor(std::chrono::hours(1)));
  setter.join();
}

TEST(CondVarTest, WaitThatTimesOutReturnsFalse) {
  Flag flag;
  EXPECT_FALSE(flag.WaitFor(std::chrono::milliseconds(1)));
  EXPECT_TRUE(OtherThreadCanLock(flag));
}

}  // namespace
}  // namespace kiln
