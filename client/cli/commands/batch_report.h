// How the answers of a batch are shown.
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

// Shows a batch: JSON lines, or a table of all answers, or (quiet) only failures; a progress bar
// where nothing else is printed as answers come. Not thread-safe.
class BatchReport {
 public:
  enum class Detail { kEveryAnswer, kFailures };

  // `total`: how many requests there will be, where known. REQUIRES: session and clock outlive it.
  BatchReport(Session& session, const Clock& clock, Detail detail, std::optional<uint64_t> total);

  void OnAnswer(const BatchAnswer& answer);
  // The summary. Returns what the command exits with.
  // `requests`: the file of requests, which is named where it has none; "" where there is none.
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
