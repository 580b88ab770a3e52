// Asks the daemon under the directory it is given for one kernel, and prints how that ended.

#include <kiln/client.h>

#include <chrono>
#include <iostream>

int main(int argc, char** argv) {
  kiln::ConnectOptions options;
  options.root = argc > 1 ? argv[1] : "";
  const auto client = kiln::Client::Connect(options);
  if (!client.ok()) {
    std::cout << absl::StatusCodeToString(client.status().code()) << '\n';
    return 0;
  }
  kiln::v1::CompileRequest request;
  request.mutable_source()->set_kind(kiln::v1::SOURCE_KIND_TTIR);
  request.mutable_source()->set_text("not a kernel");
  request.mutable_target()->set_backend("cuda");
  request.mutable_target()->set_architecture("90");
  kiln::CallOptions call;
  call.deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto answer = (*client)->Compile(request, call);
  const auto diagnostics = kiln::DiagnosticsOf(answer.status());
  std::cout << absl::StatusCodeToString(answer.status().code()) << ' '
            << (diagnostics.has_value() ? diagnostics->stage() : "") << '\n';
  return 0;
}
