// Reads whole files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "client/launch/artifact/status.h"

namespace kiln::launch {

// A regular file of at most `bytes_max` bytes. NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (too
// large, or not a regular file), INTERNAL.
StatusOr<std::string> ReadFile(const std::string& path, uint64_t bytes_max);

// As ReadFile. Only root, this user or `server_uid` can have written the file: it belongs to one of
// them, is not a symbolic link, and neither group nor others may write to it.
StatusOr<std::string> ReadTrustedFile(const std::string& path, uint64_t bytes_max,
                                      std::optional<uid_t> server_uid);

}  // namespace kiln::launch
