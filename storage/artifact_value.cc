#include "storage/artifact_value.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr double kMillisPerDay = 24.0 * 3600 * 1000;
// The cost of keys, rows and table entries per artifact.
constexpr uint64_t kOverheadBytes = 512;

}  // namespace

uint64_t ArtifactBytes(const ArtifactRecord& record) {
  uint64_t bytes = record.document.size();
  for (const StageReference& stage : record.stages) bytes += stage.size_bytes;
  return bytes;
}

double ArtifactValue(const ArtifactRecord& record, const ArtifactUsage& usage,
                     int64_t now_unix_ms) {
  const int64_t last_use = std::max(usage.last_use_unix_ms, record.created_unix_ms);
  const double idle_days =
      static_cast<double>(std::max<int64_t>(0, now_unix_ms - last_use)) / kMillisPerDay;
  const double reuse = (1.0 + static_cast<double>(usage.hits)) / (1.0 + idle_days);
  // Plus one, so that artifacts with a compile time of zero rank by reuse and size.
  const double seconds = static_cast<double>(record.compile_micros + 1) / 1e6;
  return seconds * reuse / static_cast<double>(ArtifactBytes(record) + kOverheadBytes);
}

}  // namespace kiln
