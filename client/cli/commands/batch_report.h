// Shows the answers of a batch.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "client/cli/commands/session.h"
#include "client/cli/output/json.h"
#include "client/cli/output/progress.h"
#include "client/cli/output/table.h"
#include "client/cli/requests/batch.h"

namespace kiln::cli {

// {"name","key","outcome","tier","ms","bytes","error"} and, where they say something, "line",
// "target", "file", "code", "diagnostics".
[[nodiscard]] Json ToJson(const BatchAnswer& answer);
// {"summary":{...}}; `error` is why it ended early.
[[nodiscard]] Json ToJson(const BatchCounts& counts, const absl::Status& ended);

// Prints JSON lines, a table of all answers, or only failures. Draws a progress bar while it prints
// nothing else. Not thread-safe.
class BatchReport {
 public:
  enum class Detail { kEveryAnswer, kFailures };

  // `total`: how many requests there will be, where known. REQUIRES: session and clock outlive it.
  BatchReport(Session& session, const Clock& clock, Detail detail, std::optional<uint64_t> total);

  void OnAnswer(const BatchAnswer& answer);
  // Prints the summary. Returns the exit status. `requests` is the file of requests, or "": Finish
  // says that a file has no requests.
  [[nodiscard]] ExitCode Finish(const BatchCounts& counts, const absl::Status& ended,
                                std::string_view requests);

 private:
  Session& session_;
  const Detail detail_;
  Table table_;
  Progress progress_;
  uint64_t answers_ = 0;
  uint64_t failures_ = 0;
};

}  // namespace kiln::cli
