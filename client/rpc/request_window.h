// The requests of a stream that are under way.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "client/rpc/client.h"
#include "client/rpc/retry.h"

namespace kiln {

// The requests that were taken from the source and have no final answer yet. Keeps each request, to
// send it again when the connection breaks or when the daemon is full. Bounded in number and in
// bytes. Used by one thread.
class RequestWindow {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  // An answer that needs no daemon, where there is one.
  using AnswerFinder =
      std::function<std::optional<v1::CompileResponse>(const v1::CompileRequest& request)>;

  // REQUIRES: `next` and `answer` outlive the window.
  RequestWindow(const Client::RequestSource& next, const Client::AnswerSink& answer,
                AnswerFinder find, const ManyOptions& options, const RetryOptions& retry)
      : next_(next), answer_(answer), find_(std::move(find)), options_(options), retry_(retry) {}

  // Takes requests from the source until there is one to send. False: all are answered.
  bool NeedsDaemon();

  // The id of a request to send now; nothing where none is due, or the window is full, or the
  // source is at its end. Requests that are found or are too large to send are answered here.
  std::optional<uint64_t> TakeDue(Moment now);
  const v1::CompileRequest& Request(uint64_t id) const { return held_.at(id).request; }

  // The daemon's answer to `id`, without effect where the id is not under way. Puts it back where
  // the status and the options allow another attempt, hands it to the sink otherwise.
  void OnAnswer(uint64_t id, absl::StatusOr<v1::CompileResponse> answer);
  // The connection broke: everything that was sent is due again.
  void SendAllAgain();
  // Everything under way is answered with `status`.
  void FailAll(const absl::Status& status);

  // Whether every request has its final answer.
  bool IsAllAnswered() const { return is_exhausted_ && held_.empty(); }
  // When the first request that was put back is due.
  std::optional<Moment> NextDue() const {
    return due_.empty() ? std::nullopt : std::optional(due_.begin()->first);
  }
  uint64_t answers() const { return answers_; }

 private:
  struct Held {
    v1::CompileRequest request;
    size_t size_bytes;
    Backoff backoff;
  };

  bool HasRoom() const;
  void Finish(uint64_t id, absl::StatusOr<v1::CompileResponse> answer);

  const Client::RequestSource& next_;
  const Client::AnswerSink& answer_;
  const AnswerFinder find_;
  const ManyOptions options_;
  const RetryOptions retry_;
  std::unordered_map<uint64_t, Held> held_;
  std::multimap<Moment, uint64_t> due_;
  size_t held_bytes_ = 0;
  uint64_t next_id_ = 0;
  uint64_t answers_ = 0;
  bool is_exhausted_ = false;
};

// RESOURCE_EXHAUSTED where the source or the whole request is over the limit. gRPC itself would end
// the whole stream.
[[nodiscard]] absl::Status CheckSize(const v1::CompileRequest& request);
[[nodiscard]] absl::Status CheckSize(const v1::PutOwnRequest& request);

}  // namespace kiln
