#include "client/launch/c_edge.h"

namespace kiln::launch {

LastError& last_error() {
  static thread_local LastError error;
  return error;
}

kiln_launch_code ReportFailure(const Status& status) {
  LastError& error = last_error();
  error.words = status.message();
  error.driver_result = status.driver_result();
  return static_cast<kiln_launch_code>(status.code());
}

kiln_launch_code ReportException() noexcept {
  LastError& error = last_error();
  // What was there is of another failure.
  error.words.clear();
  error.driver_result = 0;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    // Words would need memory again.
    return KILN_LAUNCH_RESOURCE_EXHAUSTED;
  } catch (const std::exception& exception) {
    try {
      error.words = exception.what();
    } catch (const std::bad_alloc&) {
      return KILN_LAUNCH_RESOURCE_EXHAUSTED;
    }
  } catch (...) {
  }
  return KILN_LAUNCH_INTERNAL;
}

}  // namespace kiln::launch
