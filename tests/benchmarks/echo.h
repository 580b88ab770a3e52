// A gRPC echo over raw buffers: the same transport and sizes as a hit, and nothing else. It neither
// parses nor serializes.
#pragma once

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

namespace kiln::benchmarks {

// Serves on a Unix socket until its standard input closes. Returns the exit code.
int RunEchoServer(const std::string& socket_path);

// Runs this same program as an echo server, as kilnd is a process of its own; ends it when
// destroyed. REQUIRES: main() calls RunEchoServer for the arguments `--echo-server SOCKET`.
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

// A channel to the server. Connects at the first call.
class EchoClient {
 public:
  explicit EchoClient(const std::string& socket_path);

  // Sends so many bytes and waits for so many. Ends the program where that fails.
  void Call(size_t request_bytes, size_t reply_bytes) const;

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace kiln::benchmarks
