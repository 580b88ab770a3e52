#include "daemon/policy/fair_queue.h"

#include <algorithm>

namespace kiln {

absl::StatusOr<FairQueue::Ticket> FairQueue::Push(const CallContext& context, size_t bytes) {
  KILN_RETURN_IF_ERROR(CheckFits(context.principal, bytes));
  const Ticket ticket = next_ticket_++;
  const auto [entry, is_new] =
      entries_.emplace(ticket, Entry{context.principal, context.priority, context.job, bytes});
  Usage& usage = usage_[context.principal];
  ++usage.length;
  usage.bytes += bytes;
  bytes_ += bytes;
  Enqueue(ticket, entry->second);
  return ticket;
}

absl::Status FairQueue::CheckFits(const Principal& principal, size_t bytes) const {
  if (entries_.size() >= limits_.length_max) {
    return ResourceExhausted("the compile queue is full with {} requests; try again later",
                             entries_.size());
  }
  if (bytes_ + bytes > limits_.bytes_max) {
    return ResourceExhausted("the compile queue is full with {} bytes of sources; try again later",
                             bytes_);
  }
  const auto found = usage_.find(principal);
  if (found == usage_.end()) return absl::OkStatus();
  const auto share_of = [this](size_t limit) {
    return static_cast<size_t>(static_cast<double>(limit) * limits_.principal_share_max);
  };
  if (found->second.length >= share_of(limits_.length_max) ||
      found->second.bytes + bytes > share_of(limits_.bytes_max)) {
    return ResourceExhausted(
        "user {} has {} requests ({} bytes) in the compile queue, which is all that one user may; "
        "try again later",
        principal.uid, found->second.length, found->second.bytes);
  }
  return absl::OkStatus();
}

const FairQueue::Level* FairQueue::MostUrgent() const {
  const auto level = std::find_if(levels_.begin(), levels_.end(),
                                  [](const Level& l) { return !l.waiting.empty(); });
  return level == levels_.end() ? nullptr : &*level;
}

std::optional<FairQueue::Ticket> FairQueue::Next() const {
  const Level* level = MostUrgent();
  if (level == nullptr) return std::nullopt;
  if (const std::optional<Ticket> ticket = TurnOfLessUrgent(level)) return ticket;
  return level->principals.Front().Front().Front();
}

std::optional<FairQueue::Ticket> FairQueue::Pop() {
  const Level* most_urgent = MostUrgent();
  if (most_urgent == nullptr) return std::nullopt;
  const std::optional<Ticket> less_urgent = TurnOfLessUrgent(most_urgent);
  ++turn_;
  if (less_urgent) {
    Remove(*less_urgent);
    return less_urgent;
  }
  Level& level = levels_[static_cast<size_t>(most_urgent - levels_.data())];
  const Ticket ticket = level.principals.Pop();
  level.waiting.erase(ticket);
  Forget(entries_.find(ticket));
  return ticket;
}

std::optional<FairQueue::Ticket> FairQueue::TurnOfLessUrgent(const Level* most_urgent) const {
  if (turn_ % kTurnOfLessUrgent != 0) return std::nullopt;
  std::optional<Ticket> oldest;
  for (const Level* level = most_urgent + 1; level != levels_.data() + levels_.size(); ++level) {
    if (level->waiting.empty()) continue;
    const Ticket first = *level->waiting.begin();
    if (!oldest || first < *oldest) oldest = first;
  }
  return oldest;
}

bool FairQueue::Remove(Ticket ticket) {
  const auto entry = entries_.find(ticket);
  if (entry == entries_.end()) return false;
  Dequeue(ticket, entry->second);
  Forget(entry);
  return true;
}

void FairQueue::Raise(Ticket ticket, Priority priority) {
  const auto found = entries_.find(ticket);
  if (found == entries_.end() || priority >= found->second.priority) return;
  Dequeue(ticket, found->second);
  found->second.priority = priority;
  Enqueue(ticket, found->second);
}

void FairQueue::Enqueue(Ticket ticket, const Entry& entry) {
  Level& level = LevelOf(entry.priority);
  level.principals[entry.principal][entry.job].tickets.insert(ticket);
  level.waiting.insert(ticket);
}

void FairQueue::Dequeue(Ticket ticket, const Entry& entry) {
  Level& level = LevelOf(entry.priority);
  level.waiting.erase(ticket);
  level.principals.Update(entry.principal, [&](Jobs& jobs) {
    jobs.Update(entry.job, [&](Line& line) { line.tickets.erase(ticket); });
  });
}

void FairQueue::Forget(Entries::iterator entry) {
  const auto usage = usage_.find(entry->second.principal);
  usage->second.bytes -= entry->second.bytes;
  bytes_ -= entry->second.bytes;
  if (--usage->second.length == 0) usage_.erase(usage);
  entries_.erase(entry);
}

}  // namespace kiln
