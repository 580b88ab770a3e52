#include "storage/base/counter.h"

#include <map>
#include <set>
#include <utility>

#include "storage/base/mutex.h"

namespace kiln {
namespace {

struct Named {
  std::string help;
  uint64_t destroyed = 0;  // what counters counted that are gone
  std::set<const Counter*> counters;
};

struct Registry {
  Mutex mutex;
  std::map<std::string, Named> by_name KILN_GUARDED_BY(mutex);
};

// Never destroyed: counters may be static.
Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

}  // namespace

Counter::Counter(std::string name, std::string help) : name_(std::move(name)) {
  Registry& registry = TheRegistry();
  const MutexLock lock(registry.mutex);
  Named& named = registry.by_name[name_];
  named.help = std::move(help);
  named.counters.insert(this);
}

Counter::~Counter() {
  Registry& registry = TheRegistry();
  const MutexLock lock(registry.mutex);
  Named& named = registry.by_name[name_];
  named.destroyed += value();
  named.counters.erase(this);
}

std::vector<CounterSample> ReadCounters() {
  Registry& registry = TheRegistry();
  std::vector<CounterSample> samples;
  const MutexLock lock(registry.mutex);
  for (const auto& [name, named] : registry.by_name) {
    uint64_t value = named.destroyed;
    for (const Counter* counter : named.counters) value += counter->value();
    samples.push_back({name, named.help, value});
  }
  return samples;
}

}  // namespace kiln
