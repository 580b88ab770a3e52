// The requests of a stream that are under way.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "client/rpc/client.h"
#include "client/rpc/retry.h"
#include "storage/base/executor.h"
#include "storage/base/mutex.h"

namespace kiln {

// The requests that were taken from the source and have no final answer yet. Keeps each request, to
// send it again when the connection breaks or when the daemon is full. Bounded in number and in
// bytes. One thread uses it. The source, which may block, runs on a thread of the window.
class RequestWindow {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  using Answer = absl::StatusOr<v1::CompileResponse>;

  // An answer that needs no daemon, where there is one.
  using AnswerFinder = std::function<std::optional<Answer>(const v1::CompileRequest& request)>;

  // REQUIRES: `next` and `answer` outlive the window; AwaitNeed returns false or End is called.
  RequestWindow(const Client::RequestSource& next, const Client::AnswerSink& answer,
                AnswerFinder find, const ManyOptions& options, const RetryOptions& retry)
      : next_(next), answer_(answer), find_(std::move(find)), options_(options), retry_(retry) {
    ReadAhead();
  }

  // Waits until there is a request to send, and answers others meanwhile. False: all are answered.
  // DEADLINE_EXCEEDED.
  absl::StatusOr<bool> AwaitNeed();

  // The id of a request to send now; nothing where none is due, or the window is full, or the
  // source has none yet. A request that needs no daemon is answered here.
  std::optional<uint64_t> TakeDue(Moment until);
  // `wake` is called on another thread when the source may have one. It does not block.
  void WakeBy(std::function<void()> wake) {
    const MutexLock lock(mutex_);
    wake_ = std::move(wake);
  }
  // That request is due again, before all others.
  void PutBack(uint64_t id) { due_.emplace(Moment(), id); }
  v1::CompileRequest& Request(uint64_t id) { return held_.at(id).request; }

  // The daemon's answer to `id`, without effect where the id is not under way. Puts it back where
  // the status and the options allow another attempt, hands it to the sink otherwise.
  void OnAnswer(uint64_t id, Answer answer);
  // The connection broke: everything that was sent is due again.
  void SendAllAgain();
  // Answers everything with `status`, which it returns: at once what is under way, then what the
  // source gives before it returns, for which it waits.
  absl::Status End(const absl::Status& status);

  // Whether every request of the source has its final answer; whether every one that was taken has.
  bool IsAllAnswered() const;
  bool IsIdle() const { return held_.empty(); }
  // When the first request is due that was read, or put back.
  std::optional<Moment> NextDue() const;
  uint64_t answers() const { return answers_; }

 private:
  struct Held {
    v1::CompileRequest request;
    Backoff backoff;
  };

  // Has the source's thread Read if there is room.
  void ReadAhead();
  void Read(size_t room, size_t bytes);
  void Finish(uint64_t id, Answer answer);

  const Client::RequestSource& next_;
  const Client::AnswerSink& answer_;
  const AnswerFinder find_;
  const ManyOptions options_;
  const RetryOptions retry_;
  std::map<uint64_t, Held> held_;  // in the order of the source, also when all are sent again
  std::multimap<Moment, uint64_t> due_;
  size_t held_bytes_ = 0;
  uint64_t next_id_ = 0;
  uint64_t answers_ = 0;
  mutable Mutex mutex_;
  CondVar has_read_;
  std::deque<v1::CompileRequest> read_ KILN_GUARDED_BY(mutex_);  // not yet taken
  bool is_reading_ KILN_GUARDED_BY(mutex_) = false;
  bool is_exhausted_ KILN_GUARDED_BY(mutex_) = false;  // nothing more is to be read
  std::function<void()> wake_ KILN_GUARDED_BY(mutex_);
  ThreadExecutor reader_{1, 1};  // last: it uses everything above
};

// RESOURCE_EXHAUSTED where the source or the whole request is over the limit. gRPC itself would end
// the whole stream.
[[nodiscard]] absl::Status CheckSize(const v1::CompileRequest& request);
[[nodiscard]] absl::Status CheckSize(const v1::PutOwnRequest& request);

}  // namespace kiln
