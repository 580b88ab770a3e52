#include "client/rpc/request_window.h"

#include <algorithm>
#include <utility>

#include "client/rpc/retry.h"
#include "storage/base/limits.h"

namespace kiln {

void RequestWindow::ReadAhead() {
  const size_t room = options_.in_flight_max - std::min(options_.in_flight_max, held_.size());
  // Several at once: each time costs two switches between threads.
  const bool has_room =
      room > options_.in_flight_max / 8 && held_bytes_ < limits::kClientInFlightBytesMax;
  const MutexLock lock(mutex_);
  if (is_reading_ || is_exhausted_ || !read_.empty() || !(has_room || held_.empty())) return;
  is_reading_ = true;
  reader_.Run([this, room, bytes = held_bytes_] { Read(room, bytes); });
}

void RequestWindow::Read(size_t room, size_t bytes) {
  bool goes_on = true;
  for (size_t count = 1; goes_on; ++count) {
    v1::CompileRequest request;
    const bool is_taken = next_(request);
    bytes += request.ByteSizeLong();
    const MutexLock lock(mutex_);
    const bool is_awaited = read_.empty();
    if (is_taken) read_.push_back(std::move(request));
    is_exhausted_ = is_exhausted_ || !is_taken;
    goes_on = !is_exhausted_ && count < room && bytes < limits::kClientInFlightBytesMax;
    is_reading_ = goes_on;
    has_read_.NotifyOne();
    if (wake_ && (is_awaited || is_exhausted_)) wake_();
  }
}

std::optional<uint64_t> RequestWindow::TakeDue(Moment until) {
  if (!due_.empty() && due_.begin()->first <= until) return due_.extract(due_.begin()).mapped();
  MutexLock lock(mutex_);
  // A wait until a moment that has passed would be a system call.
  if (read_.empty() && until <= std::chrono::steady_clock::now()) return std::nullopt;
  has_read_.WaitUntil(mutex_, until,
                      [this]() KILN_REQUIRES(mutex_) { return !read_.empty() || !is_reading_; });
  if (read_.empty()) return std::nullopt;
  const uint64_t id = next_id_++;
  const auto held = held_.emplace(id, Held{std::move(read_.front()), Backoff(retry_)}).first;
  read_.pop_front();
  lock.Unlock();
  held_bytes_ += held->second.request.ByteSizeLong();
  ReadAhead();
  std::optional<Answer> found = find_(held->second.request);
  if (!found.has_value()) return id;
  Finish(id, *std::move(found));
  return std::nullopt;
}

absl::StatusOr<bool> RequestWindow::AwaitNeed() {
  const Deadline& deadline = options_.call.deadline;
  while (!IsAllAnswered()) {
    if (const auto id = TakeDue(deadline.value_or(Moment::max()))) due_.emplace(Moment(), *id);
    if (!due_.empty()) return true;
    if (deadline.has_value() && std::chrono::steady_clock::now() >= *deadline) {
      return DeadlineExceeded("the deadline passed before the source of requests had ended");
    }
  }
  return false;
}

absl::Status RequestWindow::End(const absl::Status& status) {
  {
    const MutexLock lock(mutex_);
    is_exhausted_ = true;
  }
  while (!held_.empty()) Finish(held_.begin()->first, status);
  while (!IsAllAnswered()) {
    if (const auto id = TakeDue(Moment::max())) Finish(*id, status);
  }
  return status;
}

bool RequestWindow::IsAllAnswered() const {
  const MutexLock lock(mutex_);
  return is_exhausted_ && !is_reading_ && read_.empty() && held_.empty();
}

std::optional<RequestWindow::Moment> RequestWindow::NextDue() const {
  const MutexLock lock(mutex_);
  if (!read_.empty()) return Moment();
  return due_.empty() ? std::nullopt : std::optional(due_.begin()->first);
}

void RequestWindow::OnAnswer(uint64_t id, Answer answer) {
  const auto found = held_.find(id);
  if (found == held_.end()) return;
  ++answers_;
  if (IsWorthRepeating(answer.status())) {
    if (const auto wait = found->second.backoff.Next(RetryAfterOf(answer.status()))) {
      due_.emplace(std::chrono::steady_clock::now() + *wait, id);
      return;
    }
  }
  Finish(id, std::move(answer));
}

void RequestWindow::SendAllAgain() {
  due_.clear();
  for (const auto& [id, held] : held_) due_.emplace(Moment(), id);
}

void RequestWindow::Finish(uint64_t id, Answer answer) {
  const auto held = held_.find(id);
  held_bytes_ -= held->second.request.ByteSizeLong();
  held_.erase(held);
  std::erase_if(due_, [id](const auto& entry) { return entry.second == id; });
  answer_(id, std::move(answer));
  ReadAhead();
}

absl::Status CheckSize(const v1::CompileRequest& request) {
  const size_t source_bytes = request.source().text().size();
  if (source_bytes > limits::kSourceBytesMax) {
    return ResourceExhausted(
        "the source is longer than {} MiB, the most that is compiled: is this the right file?",
        limits::kSourceBytesMax / limits::kMiB);
  }
  // gRPC counts the stream's envelope too.
  const size_t request_bytes = request.ByteSizeLong();
  if (request_bytes + limits::kKiB > limits::kRequestBytesMax) {
    return ResourceExhausted(
        "the request is {} bytes long, the limit is {}: its options or "
        "parameters are too large",
        request_bytes, limits::kRequestBytesMax - limits::kKiB);
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const v1::PutOwnRequest& request) {
  const size_t bytes = request.ByteSizeLong();
  if (bytes + limits::kKiB <= limits::kRequestBytesMax) return absl::OkStatus();
  return ResourceExhausted("{} bytes of entries, the limit is {}: put them in several calls", bytes,
                           limits::kRequestBytesMax - limits::kKiB);
}

}  // namespace kiln
