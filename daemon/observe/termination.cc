#include "daemon/observe/termination.h"

#include <cstdlib>
#include <exception>
#include <typeinfo>

#include "storage/base/log.h"

namespace kiln {
namespace {

// Where the memory is at its end, the log line may throw as well; then the runtime ends the
// process.
[[noreturn]] void LogAndAbort() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      LogError("ended by an exception", {{"type", typeid(error).name()}, {"what", error.what()}});
    } catch (...) {
      LogError("ended by an exception of no standard type");
    }
  }
  std::abort();
}

}  // namespace

void LogUncaughtExceptions() { std::set_terminate(LogAndAbort); }

}  // namespace kiln
