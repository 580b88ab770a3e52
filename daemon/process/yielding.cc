#include "daemon/process/yielding.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string_view>
#include <thread>

#include "storage/base/log.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

using YieldClock = std::chrono::steady_clock;
constexpr int kPassesMax = 3;
constexpr int kCoresForOneLeft = 4;

// sched_setattr(2), which the C library does not declare.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t slice_ns = 0;  // sched_runtime
  uint64_t deadline = 0;
  uint64_t period = 0;
};
constexpr uint64_t kLongestSliceNs = 100'000'000;

bool SetPolicy(pid_t thread, int policy) {
  const sched_param none{};
  return ::sched_setscheduler(thread, policy, &none) == 0;
}

// Whether there was any thread to change.
bool StopOnce(pid_t process) {
  bool found = false;
  std::error_code error;
  const std::string threads = fmt::format("/proc/{}/task", process);
  for (std::filesystem::directory_iterator each(threads, error), end; !error && each != end;
       each.increment(error)) {
    const pid_t thread = static_cast<pid_t>(std::stoi(each->path().filename()));
    // Only what Yield set: a process that ended may have left its number to another.
    if (::sched_getscheduler(thread) == SCHED_IDLE) found = SetPolicy(thread, SCHED_OTHER) || found;
    std::ifstream children(each->path() / "children");
    for (pid_t child = 0; children >> child;) found = StopOnce(child) || found;
  }
  return found;
}

}  // namespace

void MakePreemptible(pid_t process) {
  SchedulingAttributes attributes;
  attributes.policy = static_cast<uint32_t>(::sched_getscheduler(process));
  attributes.nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(process));
  attributes.slice_ns = kLongestSliceNs;
  if (::syscall(SYS_sched_setattr, process, &attributes, 0) == 0 || errno != EPERM) return;
  static std::once_flag told;
  std::call_once(told, [] {
    LogInfo("compilers keep their cores for an ordinary slice: sched_setattr is not allowed");
  });
}

bool MayStopYielding() {
  bool may = false;
  // A thread that may not stop has to end.
  std::thread([&may] { may = SetPolicy(0, SCHED_IDLE) && SetPolicy(0, SCHED_OTHER); }).join();
  return may;
}

void Yield(pid_t process) { SetPolicy(process, SCHED_IDLE); }

void StopYielding(pid_t process) {
  // A thread or program that was started meanwhile may have missed a pass. A hostile one could go
  // on for ever.
  for (int pass = 0; pass < kPassesMax && StopOnce(process); ++pass) {
  }
}

void LeaveCores(pid_t process) {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return;  // more cores than a set has
  const int count = CPU_COUNT(&cores);
  if (count < 2) return;
  for (int core = 0, place = 1; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores)) continue;
    if (place % kCoresForOneLeft == 0 || (count < kCoresForOneLeft && place == count)) {
      CPU_CLR(core, &cores);
    }
    ++place;
  }
  ::sched_setaffinity(process, sizeof cores, &cores);
}

SessionWeight::SessionWeight(pid_t leader) : path_(fmt::format("/proc/{}/autogroup", leader)) {}

void SessionWeight::SetLow(bool low) {
  const MutexLock lock(mutex_);
  const auto now = YieldClock::now();
  if (low == is_low_ || (low && now - changed_at_ < std::chrono::seconds(1))) return;
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string_view nice = low ? "19" : "0";
  if (!file || ::write(file.get(), nice.data(), nice.size()) < 0) return;
  is_low_ = low;
  changed_at_ = now;
}

}  // namespace kiln
