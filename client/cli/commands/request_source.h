// The requests of the command line: from source files, or from a file of requests, once for each
// target.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/requests/request_file.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// What the flags say about every request.
struct RequestFlags {
  std::vector<std::string> targets;
  std::vector<std::string> options;
  std::vector<std::string> stages;
  std::string kind;
  // The others, by the field of a request that they set.
  std::map<std::string_view, std::string> fields;
};

class Arguments;

// Declares --target, --toolchain and --ptxas: for what, and by what a request is compiled.
void AddCompilerFlags(Arguments& arguments, RequestFlags& flags);
// Declares these, and how it is compiled: the flags that `compile` and `warm` share.
void AddRequestFlags(Arguments& arguments, RequestFlags& flags);

// The flags as a request without source, and the targets. INVALID_ARGUMENT names the flag that is
// wrong.
struct RequestTemplate {
  [[nodiscard]] static absl::StatusOr<RequestTemplate> Of(const RequestFlags& flags);

  v1::CompileRequest request;
  std::vector<v1::Target> targets;
};

// Each source file for each target. With several targets the name says which: "softmax.cuda-90".
[[nodiscard]] NamedRequestSource FromSourceFiles(std::vector<std::string> paths,
                                                 RequestTemplate shape);

// Each line of the file. The targets of the template replace the line's own target. The other
// fields of the template are defaults for the line.
[[nodiscard]] NamedRequestSource FromRequestFile(RequestFile file, RequestTemplate shape);

// Changes each request that could be read.
[[nodiscard]] NamedRequestSource Changed(NamedRequestSource next,
                                         std::function<void(v1::CompileRequest&)> change);

// One after the other.
[[nodiscard]] NamedRequestSource Chained(std::vector<NamedRequestSource> sources);

// The longest recorded compile of the next 64 requests comes first, and the largest where no time
// is recorded, so that a batch does not end with it. Holds them, and few where their sources are
// large.
[[nodiscard]] NamedRequestSource LongestFirst(NamedRequestSource next);

// "3/16": the third of 16 parts. Which part a request is in follows from its identity alone, so the
// parts of several machines are together the whole.
struct Shard {
  [[nodiscard]] static absl::StatusOr<Shard> Parse(std::string_view text);
  [[nodiscard]] bool Has(const NamedRequest& named) const;

  uint64_t number = 1;
  uint64_t count = 1;
};
// Only the shard's requests. A request that cannot be read is in the first.
[[nodiscard]] NamedRequestSource OfShard(NamedRequestSource next, Shard shard);

// The requests of all files, of the shard alone, for the template's toolchain and ptxas where it
// names them. Without `stages`: those are what a line's caller wants back, and another target may
// not have them.
[[nodiscard]] absl::StatusOr<NamedRequestSource> OpenRequests(const std::vector<std::string>& files,
                                                              const RequestTemplate& shape,
                                                              Shard shard);

// How many requests there will be, about so many for a shard. Nothing where a file cannot be read
// twice.
[[nodiscard]] std::optional<uint64_t> CountRequests(const std::vector<std::string>& files,
                                                    const RequestFlags& flags, Shard shard = {});

}  // namespace kiln::cli
