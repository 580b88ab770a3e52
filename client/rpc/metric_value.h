// A number of the daemon by its name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kiln/admin/v1/admin_service.pb.h"

namespace kiln {

// The sum over all metrics of the name, or of those whose `label` has that value. None: the daemon
// does not know it.
inline std::optional<double> FindMetric(const admin::v1::GetStatsResponse& stats,
                                        std::string_view name, const std::string& label = "",
                                        const std::string& value = "") {
  std::optional<double> sum;
  for (const admin::v1::Metric& metric : stats.metrics()) {
    if (metric.name() != name) continue;
    const auto found = metric.labels().find(label);
    const bool is_meant =
        label.empty() || (found != metric.labels().end() && found->second == value);
    if (is_meant) sum = sum.value_or(0) + metric.value();
  }
  return sum;
}

// 0 where the daemon does not know it.
inline uint64_t MetricValue(const admin::v1::GetStatsResponse& stats, std::string_view name,
                            const std::string& label = "", const std::string& value = "") {
  return static_cast<uint64_t>(FindMetric(stats, name, label, value).value_or(0));
}

}  // namespace kiln
