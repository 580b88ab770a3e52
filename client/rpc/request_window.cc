#include "client/rpc/request_window.h"

#include <utility>

#include "client/rpc/retry.h"
#include "storage/base/limits.h"

namespace kiln {

bool RequestWindow::HasRoom() const {
  return held_.empty() ||
         (held_.size() < options_.in_flight_max && held_bytes_ < limits::kClientInFlightBytesMax);
}

std::optional<uint64_t> RequestWindow::TakeDue(Moment now) {
  if (!due_.empty() && due_.begin()->first <= now) {
    const uint64_t id = due_.begin()->second;
    due_.erase(due_.begin());
    return id;
  }
  while (!is_exhausted_ && HasRoom()) {
    Held held{{}, 0, Backoff(retry_)};
    if (!next_(held.request)) {
      is_exhausted_ = true;
      break;
    }
    const uint64_t id = next_id_++;
    if (absl::Status status = CheckSize(held.request); !status.ok()) {
      answer_(id, std::move(status));
      continue;
    }
    if (auto found = find_(held.request)) {
      answer_(id, *std::move(found));
      continue;
    }
    held.size_bytes = held.request.ByteSizeLong();
    held_bytes_ += held.size_bytes;
    held_.emplace(id, std::move(held));
    return id;
  }
  return std::nullopt;
}

bool RequestWindow::NeedsDaemon() {
  if (const auto id = TakeDue(std::chrono::steady_clock::now())) due_.emplace(Moment(), *id);
  return !IsAllAnswered();
}

void RequestWindow::OnAnswer(uint64_t id, absl::StatusOr<v1::CompileResponse> answer) {
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

void RequestWindow::FailAll(const absl::Status& status) {
  while (!held_.empty()) Finish(held_.begin()->first, status);
}

void RequestWindow::Finish(uint64_t id, absl::StatusOr<v1::CompileResponse> answer) {
  const auto held = held_.find(id);
  held_bytes_ -= held->second.size_bytes;
  held_.erase(held);
  std::erase_if(due_, [id](const auto& entry) { return entry.second == id; });
  answer_(id, std::move(answer));
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
