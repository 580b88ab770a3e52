// The whole object graph. The only place that names the concrete classes; what they do together
// stands in docs/architecture.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/config/paths.h"
#include "daemon/rpc/sockets/socket_file.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace kiln {

// What main found out before it asked for a daemon.
struct DaemonSetting {
  Config config;
  Paths paths;
  std::vector<std::string> toolchain_directories;
  std::string worker_script;
  std::string native_worker;
  std::string trusted_keys;  // the file of the keys whose bundles are taken
  // Came from systemd; empty: make them.
  std::vector<SocketFile> activated_sockets;
  // What an operator's Drain calls: as a SIGTERM would. Must not block.
  std::function<void()> request_drain;
  // Readable once a signal asks the daemon to stop.
  int stop_fd = -1;
};

// A running daemon: it serves from the moment it exists. Not thread-safe; it is main's.
class Daemon {
 public:
  virtual ~Daemon() = default;

  // Takes no new requests, finishes those under way until `deadline`, cancels the rest, ends all
  // workers and threads. Blocks. Call once, before destruction.
  virtual void Drain(SteadyTime deadline) = 0;
  // One line for the service manager.
  virtual std::string StatusLine() const = 0;
};

// Opens the store (in which step it forks), finds the toolchains, starts pools and listener.
// FAILED_PRECONDITION, PERMISSION_DENIED, ALREADY_EXISTS, …: what keeps it from starting, and what
// to do about it. CANCELLED: a signal asked it to stop before the store was open.
//
// REQUIRES: the directories of `paths` exist and the process has one thread.
absl::StatusOr<std::unique_ptr<Daemon>> Assemble(DaemonSetting setting);

}  // namespace kiln
