// Requests for a real compiler that are small and as many as one likes.
#pragma once

#include <string>

#include "kiln/v1/kernel_service.pb.h"
#include "tests/testing/simple_source.h"

namespace kiln {

// For cuda:90 unless changed.
inline v1::CompileRequest SimpleKernel(int number) {
  v1::CompileRequest request;
  v1::KernelSource& source = *request.mutable_source();
  source.set_kind(v1::SOURCE_KIND_TTIR);
  source.set_name("simple_" + std::to_string(number));
  source.set_text(SimpleSource(number));
  request.mutable_target()->set_backend("cuda");
  request.mutable_target()->set_architecture("90");
  return request;
}

}  // namespace kiln
