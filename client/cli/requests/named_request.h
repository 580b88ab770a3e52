// A request of the command line, and what a recording says of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

struct Recorded {
  uint64_t count = 1;           // how often the request was recorded
  uint64_t compile_micros = 0;  // the longest compile that is known; 0: none
  // The targets for which the front end makes this very Triton IR: "cuda:90". Empty: not known.
  std::vector<std::string> same_ir_targets;
  // The version of the job's Triton; "": not known.
  std::string triton = "";
  // The compiler refused the request, and no compile of it is known.
  bool is_refused = false;
  // The request is for another target than the recorded one.
  bool is_retargeted = false;
};

// One request with its name. `request` says why a request cannot be read.
struct NamedRequest {
  std::string name;
  uint64_t line = 0;  // in the file of requests; 0: not from one
  absl::StatusOr<v1::CompileRequest> request;
  std::string source_file = "";  // as it was given; "" where the request has the text itself
  Recorded recorded = {};
};

// Where requests come from; nothing at the end.
using NamedRequestSource = std::function<std::optional<NamedRequest>()>;

}  // namespace kiln::cli
