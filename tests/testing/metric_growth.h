// How much the metrics of this process have grown: earlier tests have counted, too.
#pragma once

#include <map>
#include <string>

#include "storage/base/metrics.h"

namespace kiln {

class MetricGrowth {
 public:
  // Since the growth was made; the sum over all labels.
  double Of(const std::string& name) const {
    const auto before = before_.find(name);
    return ReadMetric(name) - (before == before_.end() ? 0 : before->second);
  }

 private:
  static std::map<std::string, double> Sums() {
    std::map<std::string, double> sums;
    for (const MetricSample& sample : ReadMetrics()) sums[sample.name] += sample.value;
    return sums;
  }

  const std::map<std::string, double> before_ = Sums();
};

}  // namespace kiln
