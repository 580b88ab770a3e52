// Whether this process may use gRPC.
#pragma once

#include <cstdint>

namespace kiln {

// How many forks lie between the first call in any ancestor and this process. Thread-safe.
[[nodiscard]] uint64_t Forks();

// gRPC starts in this process.
void NoteGrpcStart();

// False in a process that was forked from one in which this library started gRPC: both would wait
// on one epoll set, and each would take the other's events. Thread-safe.
[[nodiscard]] bool MayUseGrpc();

}  // namespace kiln
