#include "tests/benchmarks/echo_server.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "echo.grpc.pb.h"

namespace kiln::benchmarks {
namespace {

class EchoService final : public Echo::CallbackService {
  grpc::ServerUnaryReactor* Call(grpc::CallbackServerContext* context, const EchoRequest* request,
                                 EchoReply* reply) override {
    reply->set_payload(std::string(request->reply_bytes(), 'x'));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int RunEchoServer(const std::string& socket_path) {
  EchoService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket_path, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  builder.SetMaxReceiveMessageSize(-1);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  server->Shutdown();
  return 0;
}

EchoServerProcess::EchoServerProcess(const std::string& socket_path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    std::perror("pipe2");
    std::exit(1);
  }
  pid_ = fork();
  if (pid_ == 0) {
    dup2(ends[0], STDIN_FILENO);
    execl("/proc/self/exe", "kiln_benchmark", "--echo-server", socket_path.c_str(), nullptr);
    _exit(127);
  }
  close(ends[0]);
  stdin_ = ends[1];
  while (access(socket_path.c_str(), F_OK) != 0 && waitpid(pid_, nullptr, WNOHANG) == 0) {
    usleep(1000);
  }
}

EchoServerProcess::~EchoServerProcess() {
  close(stdin_);
  waitpid(pid_, nullptr, 0);
}

}  // namespace kiln::benchmarks
