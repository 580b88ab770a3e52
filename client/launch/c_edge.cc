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
  error = {};
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return KILN_LAUNCH_RESOURCE_EXHAUSTED;  // a text would need memory again
  } catch (const std::exception& exception) {
    error.words = exception.what();
  } catch (...) {
  }
  return KILN_LAUNCH_INTERNAL;
}

}  // namespace kiln::launch
