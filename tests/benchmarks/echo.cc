#include "tests/benchmarks/echo.h"

#include <fcntl.h>
#include <grpc/slice.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace kiln::benchmarks {
namespace {

constexpr char kMethod[] = "/kiln.benchmarks.Echo/Call";

// A call begins with the size of its reply.
using ReplyBytes = uint64_t;

grpc::ByteBuffer Bytes(size_t count, ReplyBytes reply_bytes = 0) {
  grpc_slice made = grpc_slice_malloc(std::max(count, sizeof reply_bytes));
  std::memcpy(GRPC_SLICE_START_PTR(made), &reply_bytes, sizeof reply_bytes);
  const grpc::Slice slice(made, grpc::Slice::STEAL_REF);
  return grpc::ByteBuffer(&slice, 1);
}

class Reactor final : public grpc::ServerGenericBidiReactor {
 public:
  Reactor() { StartRead(&request_); }
  void OnReadDone(bool ok) override {
    std::vector<grpc::Slice> slices;
    if (!ok || !request_.Dump(&slices).ok()) return Finish(grpc::Status::CANCELLED);
    ReplyBytes reply_bytes = 0;
    size_t taken = 0;  // the first slices may be short
    for (const grpc::Slice& slice : slices) {
      const size_t size = std::min(slice.size(), sizeof reply_bytes - taken);
      std::memcpy(reinterpret_cast<char*>(&reply_bytes) + taken, slice.begin(), size);
      taken += size;
    }
    reply_ = Bytes(reply_bytes);
    StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
};

class EchoService final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor;
  }
};

}  // namespace

int RunEchoServer(const std::string& socket_path) {
  EchoService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket_path, grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&service);
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
    execl("/proc/self/exe", "echo", "--echo-server", socket_path.c_str(), nullptr);
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

EchoClient::EchoClient(const std::string& socket_path)
    : channel_(grpc::CreateChannel("unix:" + socket_path, grpc::InsecureChannelCredentials())) {}

void EchoClient::Call(size_t request_bytes, size_t reply_bytes) const {
  const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  const grpc::ByteBuffer request = Bytes(request_bytes, reply_bytes);
  grpc::ByteBuffer reply;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel_.get(), method, &context, request, &reply);
  if (status.ok() && reply.Length() >= reply_bytes) return;
  std::fprintf(stderr, "echo: %s\n", status.error_message().c_str());
  std::exit(1);
}

}  // namespace kiln::benchmarks
