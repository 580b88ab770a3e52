#include "tests/unit/rpc/service_fixture.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <thread>

namespace kiln {

ServiceTest::ServiceTest() {
  actions_.state = [](admin::v1::GetStatsResponse& out) {
    out.set_version("test");
    out.set_state("serving");
  };
  actions_.evict_to = [](const CallContext&, uint64_t target) -> absl::StatusOr<uint64_t> {
    return target;
  };
  actions_.verify = [this](const CallContext& context, const VerificationCallback& report) {
    return VerifyArtifacts(context, store_.index(), store_.blobs(), store_.index(), report)
        .status();
  };
  actions_.negatives = &negatives_;
  actions_.toolchains = [this] {
    ToolchainsHere here;
    for (const auto& toolchain : catalog_.List()) {
      here.held.push_back({toolchain,
                           "failed: /x does not run",
                           {"not used for hip: it is slow"},
                           {SourceKind::kTtir}});
    }
    here.has_default = true;
    here.rejected.push_back({"/x/broken", "it does not run", "/x"});
    here.directories = {"/x"};
    here.default_selector = default_;
    return here;
  };
  actions_.reload_toolchains = [](const std::function<void(absl::Status)>& done) {
    done(absl::OkStatus());
  };
  actions_.set_default_toolchain = [this](const std::string& selector) {
    if (selector == "triton==9.9.9") return FailedPrecondition("there is no such toolchain");
    default_ = selector;
    return absl::OkStatus();
  };
  actions_.drain = [this] { ++drains_; };
  EXPECT_TRUE(light_server_.Start().ok());
}

std::shared_ptr<grpc::Channel> ServiceTest::Connect(const Principal& principal, UniqueFd* socket) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  EXPECT_TRUE(servers_.Serve(UniqueFd(ends[0]), principal).ok());
  if (socket != nullptr) socket->Reset(::fcntl(ends[1], F_DUPFD_CLOEXEC, 0));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(limits::kClientReceiveBytesMax);
  arguments.SetMaxSendMessageSize(-1);
  return grpc::CreateCustomInsecureChannelFromFd("kilnd", ends[1], arguments);
}

UniqueFd ServiceTest::ConnectLight(const Principal& principal) {
  return ConnectLight(light_server_, principal);
}

UniqueFd ServiceTest::ConnectLight(LightServer& server, const Principal& principal) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd client(ends[1]);
  EXPECT_TRUE(server.Serve(UniqueFd(ends[0]), principal).ok());
  return client;
}

v1::CompileRequest ServiceTest::Request(const std::string& text) {
  v1::CompileRequest request;
  request.mutable_source()->set_kind(v1::SOURCE_KIND_TTIR);
  request.mutable_source()->set_text(text);
  request.mutable_target()->set_backend("cuda");
  request.mutable_target()->set_architecture("90");
  return request;
}

bool ServiceTest::Comes(const std::function<bool()>& is_so) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

void ServiceTest::AwaitHeld(size_t count) {
  ASSERT_TRUE(Comes([&] { return provider_.held() >= count; }));
}

}  // namespace kiln
