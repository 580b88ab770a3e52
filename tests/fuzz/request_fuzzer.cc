// What a client sends: a message of any bytes, or one whose text form the fuzzer writes, to the job
// that it becomes.
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <cstdint>
#include <cstdlib>

#include "daemon/kernel/compile_key.h"
#include "daemon/kernel/request_resolver.h"
#include "daemon/messages/translate.h"
#include "tests/testing/fake_catalog.h"

namespace kiln {
namespace {

bool Parse(bool as_text, std::string_view bytes, v1::CompileRequest& request) {
  if (as_text) {
    return google::protobuf::TextFormat::ParseFromString(std::string(bytes), &request);
  }
  return request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void Ask(v1::CompileRequest&& message) {
  static const auto* const catalog = new FakeCatalog({MakeTriton()});
  auto request = FromProto(std::move(message));
  if (!request.ok()) {
    if (!absl::IsInvalidArgument(request.status())) std::abort();
    return;
  }
  const auto job = RequestResolver(*catalog).Resolve(*std::move(request));
  if (!job.ok()) {
    // Whatever a client sends, it is never the daemon's own fault.
    if (absl::IsInternal(job.status())) std::abort();
    return;
  }
  if ((*job)->key != CompileKey((*job)->request, (*job)->toolchain->fingerprint)) std::abort();
}

}  // namespace
}  // namespace kiln

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it would print every text that does not parse
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  kiln::v1::CompileRequest request;
  if (kiln::Parse((data[0] & 1) != 0, bytes, request)) kiln::Ask(std::move(request));
  return 0;
}
