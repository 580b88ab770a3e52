// Requests for a daemon whose compiler is the fake one (fake_compiler.h).
#pragma once

#include <string>

#include "kiln/v1/kernel_service.pb.h"

namespace kiln {

// Makes it do `what`. For cuda:90.
inline v1::CompileRequest FakeKernel(const std::string& what) {
  v1::CompileRequest request;
  request.mutable_source()->set_kind(v1::SOURCE_KIND_TTIR);
  request.mutable_source()->set_text(what);
  request.mutable_target()->set_backend("cuda");
  request.mutable_target()->set_architecture("90");
  return request;
}

}  // namespace kiln
