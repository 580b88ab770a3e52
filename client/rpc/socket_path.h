// Where a client looks for the daemon's sockets: the same rules as the daemon's own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "storage/base/status.h"

namespace kiln {

// The parts of the process that decide the path. Tests inject their own.
struct SocketSurroundings {
  std::function<const char*(const char* name)> variable;  // null: not set
  std::function<bool(const std::string& path)> exists;
  uid_t uid = 0;

  // The process's own.
  static SocketSurroundings OfProcess();
};

inline constexpr std::string_view kServiceSocket = "kilnd.sock";
inline constexpr std::string_view kAdminSocket = "admin.sock";

// `explicit_path` where it is set; ROOT/run/<file> for `root` or $KILN_ROOT; otherwise the first
// that exists of the person's and the system's. UNAVAILABLE, naming every place, where none does.
[[nodiscard]] absl::StatusOr<std::string> FindSocket(std::string_view explicit_path,
                                                     std::string_view root, std::string_view file,
                                                     const SocketSurroundings& surroundings);

// `name` in the folder of `socket_path`.
[[nodiscard]] std::string InSocketFolder(std::string_view socket_path, std::string_view name);

}  // namespace kiln
