// A file of compile requests, one JSON object a line. docs/cli.md describes the format.
#pragma once

#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <string>

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// One request with its name. `request` says why a request cannot be read.
struct NamedRequest {
  std::string name;
  uint64_t line = 0;  // in the file of requests; 0: not from one
  absl::StatusOr<v1::CompileRequest> request;
  std::string source_file = "";  // as it was given; "" where the request has the text itself
};

// Where requests come from; nothing at the end.
using NamedRequestSource = std::function<std::optional<NamedRequest>()>;

// Reads line by line and holds one line; passes over lines that are too long. Movable. Not
// thread-safe.
class RequestFile {
 public:
  // "-" is the standard input. NOT_FOUND, PERMISSION_DENIED; INVALID_ARGUMENT for a name like
  // that of a source.
  [[nodiscard]] static absl::StatusOr<RequestFile> Open(const std::string& path);

  // `folder` is what a `source_file` is relative to.
  RequestFile(std::shared_ptr<std::istream> stream, std::string folder);

  // Nothing at the end. Skips empty lines.
  std::optional<NamedRequest> Next();

 private:
  std::shared_ptr<std::istream> stream_;
  std::string folder_;
  std::unique_ptr<char[]> line_;
  uint64_t number_ = 0;
};

}  // namespace kiln::cli
