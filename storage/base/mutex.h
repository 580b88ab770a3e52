// Mutexes whose use clang checks (-Wthread-safety), around those of the standard library: libstdc++
// does not annotate its own, and ThreadSanitizer misunderstands Debian's absl::Mutex.
//
//   Mutex mutex_;
//   bool is_done_ KILN_GUARDED_BY(mutex_) = false;
//   void Finish() KILN_REQUIRES(mutex_);
//
//   MutexLock lock(mutex_);
//   while (!is_done_) changed_.Wait(mutex_);
//
// Clang checks a lambda by itself: one that is called under the lock says so after its parameters,
// [this]() KILN_REQUIRES(mutex_) { … }. A constructor and a destructor are not checked.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define KILN_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define KILN_THREAD_ATTRIBUTE(x)
#endif

// After a member: read and written only while the mutex is held.
#define KILN_GUARDED_BY(mutex) KILN_THREAD_ATTRIBUTE(guarded_by(mutex))

// After a function's declaration: the caller holds the mutexes, or must not hold them.
#define KILN_REQUIRES(...) KILN_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define KILN_EXCLUDES(...) KILN_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

// After a function's declaration: takes or releases the mutexes (of a class that is one: itself).
#define KILN_ACQUIRE(...) KILN_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define KILN_TRY_ACQUIRE(...) KILN_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define KILN_RELEASE(...) KILN_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

// The last resort: the function's body is not checked. A comment says why.
#define KILN_NO_THREAD_SAFETY_ANALYSIS KILN_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace kiln {

class KILN_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Prefer MutexLock.
  void Lock() KILN_ACQUIRE() { mutex_.lock(); }
  bool TryLock() KILN_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void Unlock() KILN_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds the mutex until the end of the scope. Unlock releases it earlier; Lock takes it again.
class KILN_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) KILN_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() KILN_RELEASE() {
    if (is_locked_) mutex_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() KILN_RELEASE() {
    is_locked_ = false;
    mutex_.Unlock();
  }
  void Lock() KILN_ACQUIRE() {
    mutex_.Lock();
    is_locked_ = true;
  }

 private:
  Mutex& mutex_;
  bool is_locked_ = true;
};

// A condition variable for a Mutex. A wait may return early for no reason, so callers loop over
// their condition, or give it as `is_met`, which is called under the lock.
class CondVar {
 public:
  void Wait(Mutex& mutex) KILN_REQUIRES(mutex) {
    Adopted lock(mutex);
    changed_.wait(lock.lock);
  }
  // False once the deadline has passed.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      KILN_REQUIRES(mutex) {
    Adopted lock(mutex);
    return changed_.wait_until(lock.lock, deadline) == std::cv_status::no_timeout;
  }

  // Unchecked, as clang cannot tell that `is_met` requires this very mutex.
  template <class Predicate>
  void Wait(Mutex& mutex, Predicate is_met) KILN_REQUIRES(mutex) KILN_NO_THREAD_SAFETY_ANALYSIS {
    while (!is_met()) Wait(mutex);
  }
  // Whether the condition was met, at the deadline at the latest.
  template <class Predicate>
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline, Predicate is_met)
      KILN_REQUIRES(mutex) KILN_NO_THREAD_SAFETY_ANALYSIS {
    while (!is_met()) {
      if (!WaitUntil(mutex, deadline)) return is_met();
    }
    return true;
  }
  template <class Predicate>
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds time, Predicate is_met) KILN_REQUIRES(mutex) {
    return WaitUntil(mutex, std::chrono::steady_clock::now() + time, is_met);
  }

  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  // The caller's lock for the time of one wait.
  struct Adopted {
    explicit Adopted(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable changed_;
};

}  // namespace kiln
