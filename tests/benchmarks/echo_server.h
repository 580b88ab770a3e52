// A gRPC server that does nothing but answer, in a process of its own, as kilnd is one.
#pragma once

#include <sys/types.h>

#include <string>

namespace kiln::benchmarks {

// Serves Echo on a Unix socket until its standard input closes. Returns the exit code.
int RunEchoServer(const std::string& socket_path);

// Runs this same program as an echo server; ends it when destroyed.
class EchoServerProcess {
 public:
  explicit EchoServerProcess(const std::string& socket_path);
  ~EchoServerProcess();
  EchoServerProcess(const EchoServerProcess&) = delete;
  EchoServerProcess& operator=(const EchoServerProcess&) = delete;

 private:
  pid_t pid_ = -1;
  int stdin_ = -1;
};

}  // namespace kiln::benchmarks
