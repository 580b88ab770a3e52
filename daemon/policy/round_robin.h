// Taking turns.
#pragma once

#include <cassert>
#include <list>
#include <map>
#include <utility>

namespace kiln {

// Queues by key; Pop takes from each in turn. `Queue` has Pop(), empty() and is
// default-constructible. A key's queue exists while it is not empty, and a key that comes back
// waits its turn like a new one. Not thread-safe.
template <typename Key, typename Queue>
class RoundRobin {
 public:
  // The queue of `key`, made where there is none. REQUIRES: something is put into it before the
  // next call.
  Queue& operator[](const Key& key) {
    const auto found = places_.find(key);
    if (found != places_.end()) return found->second->second;
    turns_.emplace_back(key, Queue());
    places_.emplace(key, std::prev(turns_.end()));
    return turns_.back().second;
  }

  // The queue whose turn it is. REQUIRES: !empty().
  const Queue& Front() const {
    assert(!empty());
    return turns_.front().second;
  }

  // REQUIRES: !empty().
  auto Pop() {
    assert(!empty());
    auto popped = turns_.front().second.Pop();
    turns_.splice(turns_.end(), turns_, turns_.begin());
    DropIfEmpty(std::prev(turns_.end()));
    return popped;
  }

  // Calls `change(queue)` on the queue of `key`, which exists, and forgets it where that empties
  // it.
  template <typename Change>
  void Update(const Key& key, Change change) {
    const auto place = places_.at(key);
    change(place->second);
    DropIfEmpty(place);
  }

  bool empty() const { return turns_.empty(); }

 private:
  using Turns = std::list<std::pair<Key, Queue>>;

  void DropIfEmpty(typename Turns::iterator place) {
    if (!place->second.empty()) return;
    places_.erase(place->first);
    turns_.erase(place);
  }

  Turns turns_;  // the next one first
  std::map<Key, typename Turns::iterator> places_;
};

}  // namespace kiln
