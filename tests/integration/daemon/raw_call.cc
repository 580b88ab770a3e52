#include "tests/integration/daemon/raw_call.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <thread>

#include "storage/base/limits.h"

namespace kiln {
namespace {

grpc::ByteBuffer ToBuffer(const std::string& message) {
  const grpc::Slice slice(message);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// Connects on a thread of its own, whose credentials alone change: the kernel notes those of the
// connecting thread.
int Dial(const std::string& path, std::optional<uid_t> uid) {
  int connected = -1;
  std::thread([&] {
    if (uid && ::syscall(SYS_setresuid, -1, *uid, -1) != 0) return;
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::fcntl(fd, F_SETFL, O_NONBLOCK) == 0) {
      connected = fd;
    } else {
      ::close(fd);
    }
  }).join();
  return connected;
}

std::shared_ptr<grpc::Channel> ChannelOn(int fd) {
  if (fd < 0) return nullptr;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(limits::kClientReceiveBytesMax);
  arguments.SetMaxSendMessageSize(-1);
  return grpc::CreateCustomInsecureChannelFromFd("kilnd", fd, arguments);
}

}  // namespace

RawAnswer CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                  const std::string& message) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  RawAnswer answer;
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  call->WriteLast(ToBuffer(message), grpc::WriteOptions(), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer received;
  call->Read(&received, nullptr);
  queue.Next(&tag, &ok);
  if (ok) answer.message = ToString(received);
  call->Finish(&answer.status, nullptr);
  queue.Next(&tag, &ok);
  return answer;
}

std::shared_ptr<grpc::Channel> ConnectTo(const std::string& socket) {
  return ChannelOn(Dial(socket, std::nullopt));
}

std::shared_ptr<grpc::Channel> ConnectAs(uid_t uid, const std::string& socket) {
  return ChannelOn(Dial(socket, uid));
}

}  // namespace kiln
