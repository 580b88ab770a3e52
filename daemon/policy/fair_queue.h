// Whose compile is next.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "daemon/policy/round_robin.h"
#include "storage/base/call_context.h"
#include "storage/base/status.h"

namespace kiln {

struct FairQueueLimits {
  size_t length_max = 0;
  size_t bytes_max = 0;
  // The share of both that one principal may fill: a principal's backlog never refuses another's.
  double principal_share_max = 0.75;
};

// An order over tickets:
//
//  1. by priority: a waiting rank, then autotune, then warm, then background;
//  2. within a priority, principals take turns;
//  3. within a principal, its jobs take turns (a principal that invents jobs only takes from
//  itself);
//  4. within a job, first come, first served; a ticket whose priority was raised keeps its age.
//
// Priority is not absolute: every 16th ticket that is taken is the one that has waited longest
// among the less urgent, so warming and background work go on, at a sixteenth of the machine,
// however long autotuning keeps the queue busy. A share of the turns, rather than a priority that
// rises with age: a backlog of warming never overtakes a rank that waits, and the rule needs no
// clock.
//
// Not thread-safe.
class FairQueue {
 public:
  using Ticket = uint64_t;

  explicit FairQueue(const FairQueueLimits& limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED, saying whose limit was reached, where it does not fit.
  absl::StatusOr<Ticket> Push(const CallContext& context, size_t bytes);
  // The ticket whose turn it is; nothing where the queue is empty. Takes nothing.
  std::optional<Ticket> Next() const;
  // Takes that ticket.
  std::optional<Ticket> Pop();
  // False where the ticket is not (or no longer) in the queue.
  bool Remove(Ticket ticket);
  // Does nothing where `priority` is not more urgent, or the ticket not in the queue.
  void Raise(Ticket ticket, Priority priority);

  size_t length() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }
  size_t LengthAt(Priority priority) const { return LevelOf(priority).waiting.size(); }

 private:
  // Tickets are numbered as they come.
  struct Line {
    std::set<Ticket> tickets;
    Ticket Front() const { return *tickets.begin(); }
    Ticket Pop() { return tickets.extract(tickets.begin()).value(); }
    bool empty() const { return tickets.empty(); }
  };
  using Jobs = RoundRobin<std::string, Line>;
  struct Level {
    RoundRobin<Principal, Jobs> principals;
    std::set<Ticket> waiting;  // the same tickets, the oldest first
  };
  struct Entry {
    Principal principal;
    Priority priority;
    std::string job;
    size_t bytes;
  };
  using Entries = std::unordered_map<Ticket, Entry>;
  struct Usage {
    size_t length = 0;
    size_t bytes = 0;
  };
  static constexpr uint64_t kTurnOfLessUrgent = 16;

  Level& LevelOf(Priority priority) { return levels_[static_cast<size_t>(priority)]; }
  const Level& LevelOf(Priority priority) const { return levels_[static_cast<size_t>(priority)]; }

  absl::Status CheckFits(const Principal& principal, size_t bytes) const;
  void Enqueue(Ticket ticket, const Entry& entry);
  void Dequeue(Ticket ticket, const Entry& entry);
  void Forget(Entries::iterator entry);
  const Level* MostUrgent() const;
  // The ticket that goes before the most urgent ones where it is the others' turn.
  std::optional<Ticket> TurnOfLessUrgent(const Level* most_urgent) const;

  const FairQueueLimits limits_;
  std::array<Level, 4> levels_;  // by Priority, the most urgent first
  Entries entries_;
  std::map<Principal, Usage> usage_;
  size_t bytes_ = 0;
  Ticket next_ticket_ = 1;
  uint64_t turn_ = 1;
};

}  // namespace kiln
