// Opens a store that may be rotten where nothing can go wrong: in a child process, read-only,
// against the clock.
#pragma once

#include <chrono>
#include <string>

#include "storage/base/status.h"

namespace kiln {

// OK: it opens. DATA_LOSS: it does not, or opening it crashed or hung; it should be set aside.
// FAILED_PRECONDITION: written by a newer Kiln or by something else. PERMISSION_DENIED,
// RESOURCE_EXHAUSTED: could not look, which says nothing about the store.
//
// Changes nothing. REQUIRES: the calling process has no other threads
// that could hold a lock while it forks (call it at start-up); `path` holds a database, and nobody
// has it open.
absl::Status ProbeRocksStore(const std::string& path, std::chrono::milliseconds time_max);

}  // namespace kiln
