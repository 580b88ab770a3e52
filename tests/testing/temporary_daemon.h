// A real kilnd on a private directory.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "client/rpc/client.h"
#include "tests/testing/temp_directory.h"

namespace kiln {

// Starts, stops, kills and restarts the kilnd of this build, always on the same directory. What
// goes wrong in doing so ends the test program with the daemon's log. Not thread-safe.
class TemporaryDaemon {
 public:
  // Does not start it. `arguments` are added to --root.
  explicit TemporaryDaemon(std::vector<std::string> arguments = {});
  // Kills it where it still runs.
  ~TemporaryDaemon();
  TemporaryDaemon(const TemporaryDaemon&) = delete;
  TemporaryDaemon& operator=(const TemporaryDaemon&) = delete;

  // Returns when it answers.
  void Start();
  // Starts it and returns its exit code, for a daemon that should not come up. -N: signal N.
  int RunToExit();
  // SIGKILL, at whatever instruction it is.
  void Kill();
  // SIGTERM and the exit code.
  int Stop();
  void Signal(int signal_number);
  // After a signal that ends it: the exit code, or -N.
  int Wait();
  bool IsRunning() const { return pid_ > 0; }

  std::unique_ptr<Client> Connect(const ConnectOptions& options = {}) const;

  pid_t pid() const { return pid_; }
  const std::string& root() const { return root_; }
  std::string socket() const { return root_ + "/run/kilnd.sock"; }
  std::string admin_socket() const { return root_ + "/run/admin.sock"; }
  // Everything that it has logged, over all its lives.
  std::string Log() const;

 private:
  void Spawn();
  [[noreturn]] void Die(const std::string& what);
  std::string SharedDescriptions() const;

  const TempDirectory directory_;
  const std::string root_;
  const std::vector<std::string> arguments_;
  pid_t pid_ = -1;
};

}  // namespace kiln
