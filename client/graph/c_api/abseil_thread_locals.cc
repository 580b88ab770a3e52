// Replaces the two files of Abseil that Debian's archives have for programs alone: their
// thread-local variables are at fixed places, which a shared object cannot have. All else of Abseil
// is linked from the archives. libkiln_graph needs them for the mutexes of absl::Cord, which
// absl::Status can hold; it samples no Cords, as a process does not that never asked for it.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <thread>

#include "absl/base/internal/sysinfo.h"
#include "absl/strings/internal/cordz_functions.h"

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace base_internal {

double NominalCPUFrequency() { return 1.0; }  // Abseil's own answer where it is not known

int NumCPUs() { return static_cast<int>(std::thread::hardware_concurrency()); }

pid_t GetTID() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

pid_t GetCachedTID() {
  static thread_local const pid_t id = GetTID();
  return id;
}

}  // namespace base_internal

namespace cord_internal {

ABSL_CONST_INIT thread_local int64_t cordz_next_sample = std::numeric_limits<int64_t>::max();

bool cordz_should_profile_slow() {
  cordz_next_sample = std::numeric_limits<int64_t>::max();
  return false;
}

}  // namespace cord_internal
ABSL_NAMESPACE_END
}  // namespace absl
