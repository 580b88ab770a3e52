// What kiln-worker compiles with.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "daemon/kernel/kernel.h"
#include "daemon/worker/worker_protocol.h"
#include "storage/base/status.h"

namespace kiln {

// One toolchain, opened. The zygote makes it, and every worker that is forked has it. Leaves no
// thread behind: a process that forks has one. Not thread-safe.
class NativeCompiler {
 public:
  virtual ~NativeCompiler() = default;

  // "12.9.86"
  virtual std::string Version() const = 0;

  // What it starts, for the jail; absolute and without links.
  virtual std::vector<std::string> Programs() const = 0;
  // Files and directories that a compile may come to read besides what is loaded by then, likewise.
  virtual std::vector<std::string> Reads() const { return {}; }

  // Whether a source could have it read files that are not the source's business. Then it must not
  // compile outside of a jail.
  virtual bool NeedsJail() const { return false; }

  // Whether Programs() and Reads() are all that a compile opens once this is open: its jail has
  // nothing else, such as the directories of the system's libraries.
  virtual bool NamesAllItOpens() const { return false; }

  // The JSON object that --describe prints; daemon/toolchain/description.h reads it. Blocks: it may
  // compile something for every architecture.
  virtual absl::StatusOr<nlohmann::json> Describe() = 0;

  // Compiles in the current directory, which is empty and the process's own. What is wrong with the
  // request is an outcome; so is whatever kept the compiler from deciding. Usage is filled in by
  // the caller, but for the peak memory of programs that it started.
  virtual WorkerReply Compile(const CompileRequest& request) = 0;
};

uint64_t MicrosSince(std::chrono::steady_clock::time_point started);

// An answer of the outcome kFailed. INVALID_ARGUMENT and RESOURCE_EXHAUSTED are decided, whichever
// stage said so. UNAVAILABLE and FAILED_PRECONDITION are what this machine or its operator lacks,
// and say nothing of the source. Everything else was not decided, counts as INTERNAL and may be
// tried again.
WorkerReply FailedReply(std::string stage, const absl::Status& status, std::string output = "");

// For FailedReply: trouble that no source makes, such as a full disk, whatever its code.
absl::Status OfThisMachine(const absl::Status& trouble);

}  // namespace kiln
