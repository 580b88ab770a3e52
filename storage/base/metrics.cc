#include "storage/base/metrics.h"

#include <cmath>
#include <map>

#include "storage/base/mutex.h"

namespace kiln {
namespace {

// The metrics of one name and one set of labels.
struct Family {
  std::string help;
  bool is_counter = false;
  double destroyed = 0;  // what counters counted that are gone
  std::map<const void*, Gauge::Read> metrics;
};

struct Registry {
  Mutex reading;  // taken before `mutex`: no gauge ends meanwhile, so it is read without `mutex`
  Mutex mutex;
  std::map<std::pair<std::string, MetricLabels>, Family> families KILN_GUARDED_BY(mutex);
};

// Never destroyed: metrics may be static.
Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

void Register(const void* metric, const std::string& name, const MetricLabels& labels,
              std::string help, bool is_counter, Gauge::Read read) {
  Registry& registry = TheRegistry();
  const MutexLock lock(registry.mutex);
  Family& family = registry.families[{name, labels}];
  if (!help.empty()) family.help = std::move(help);
  family.is_counter = is_counter;
  family.metrics.emplace(metric, std::move(read));
}

void Unregister(const void* metric, const std::string& name, const MetricLabels& labels,
                double counted) {
  Registry& registry = TheRegistry();
  const MutexLock lock(registry.mutex);
  Family& family = registry.families[{name, labels}];
  family.destroyed += counted;
  family.metrics.erase(metric);
}

std::optional<double> ValueOf(const Family& family) {
  std::optional<double> sum;
  if (family.is_counter) sum = family.destroyed;
  for (const auto& [metric, read] : family.metrics) {
    if (const std::optional<double> value = read()) sum = sum.value_or(0) + *value;
  }
  return sum;
}

}  // namespace

Counter::Counter(std::string name, std::string help, MetricLabels labels)
    : name_(std::move(name)), labels_(std::move(labels)) {
  Register(this, name_, labels_, std::move(help), /*is_counter=*/true, [this] { return value(); });
}

Counter::~Counter() { Unregister(this, name_, labels_, static_cast<double>(value())); }

Gauge::Gauge(std::string name, std::string help, Read read, MetricLabels labels)
    : name_(std::move(name)), labels_(std::move(labels)) {
  Register(this, name_, labels_, std::move(help), /*is_counter=*/false, std::move(read));
}

Gauge::~Gauge() {
  const MutexLock reading(TheRegistry().reading);
  Unregister(this, name_, labels_, 0);
}

std::vector<MetricSample> ReadMetrics() {
  Registry& registry = TheRegistry();
  std::vector<MetricSample> samples;
  std::vector<std::pair<size_t, Family>> gauges;  // each with its place in `samples`
  const MutexLock reading(registry.reading);
  {
    const MutexLock lock(registry.mutex);
    for (const auto& [id, family] : registry.families) {
      if (!family.is_counter) gauges.emplace_back(samples.size(), family);
      const double value = family.is_counter ? *ValueOf(family) : 0;
      samples.push_back({id.first, id.second, family.help, family.is_counter, value});
    }
  }
  for (const auto& [place, family] : gauges) {
    samples[place].value = ValueOf(family).value_or(std::nan(""));
  }
  std::erase_if(samples, [](const MetricSample& sample) { return std::isnan(sample.value); });
  return samples;
}

double ReadMetric(std::string_view name) {
  double sum = 0;
  for (const MetricSample& sample : ReadMetrics()) {
    if (sample.name == name) sum += sample.value;
  }
  return sum;
}

}  // namespace kiln
