#include "client/rpc/compile_stream.h"

#include <grpcpp/alarm.h>
#include <grpcpp/support/async_stream.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>

#include "client/rpc/status_details.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

// Until a process has freed one large block, glibc gives what each message took back to the system,
// and gets it again for the next one page by page: a sixth of a batch of a thousand hits. The block
// is as large as gRPC's largest read.
void KeepFreedMemory() {
  static const bool is_done = [] {
    void* volatile block = std::malloc(4 * limits::kMiB);
    std::free(block);
    return true;
  }();
  static_cast<void>(is_done);
}

// A message of requests that stay the window's. The destructor takes the requests out, so that the
// message never frees them, whatever is thrown meanwhile.
class LendingMessage {
 public:
  LendingMessage() { message_.set_takes_more(true); }
  ~LendingMessage() {
    message_.unsafe_arena_release_request();
    for (v1::CompileStreamRequest& item : *message_.mutable_more()) {
      item.unsafe_arena_release_request();
    }
  }
  LendingMessage(const LendingMessage&) = delete;
  LendingMessage& operator=(const LendingMessage&) = delete;

  void Lend(uint64_t id, v1::CompileRequest& request) {
    v1::CompileStreamRequest& item = message_.has_request() ? *message_.add_more() : message_;
    item.set_id(id);
    item.unsafe_arena_set_allocated_request(&request);
  }
  const v1::CompileStreamRequest& message() const { return message_; }

 private:
  v1::CompileStreamRequest message_;
};

// At most one read and one write are under way at any moment, as gRPC demands; both complete on the
// same queue, so one thread drives the stream. A read is always under way while the stream is open:
// its failure is how the end of the stream is noticed. An alarm brings word of the source.
class CompileStream {
 public:
  CompileStream(KernelStub& stub, const CallLimits& limits, const AnswerCompletion& complete,
                RequestWindow& window)
      : complete_(complete),
        window_(window),
        call_(stub, limits),
        stream_(stub.PrepareAsyncCompileStream(call_.context(), call_.queue())) {}

  // Ends what is under way where the caller's sink has thrown, against its contract.
  ~CompileStream() {
    call_.context()->TryCancel();
    Close();
  }
  CompileStream(const CompileStream&) = delete;
  CompileStream& operator=(const CompileStream&) = delete;

  absl::Status Run() {
    stream_->StartCall(Tag(kStart));
    if (!call_.Next()->ok) return Finish();
    stream_->Read(&answer_, Tag(kRead));
    is_reading_ = true;
    window_.WakeBy([this] { Wake(); });
    while (is_reading_ || is_writing_) {
      const auto event = call_.Next(SendNext());
      if (event.has_value()) OnEvent(*event);
    }
    Close();
    return Finish();
  }

 private:
  enum Operation : intptr_t { kStart = 1, kRead, kWrite, kWake, kFinish };
  static void* Tag(Operation operation) { return reinterpret_cast<void*>(operation); }

  // On the source's thread. The alarm must not be set again, or destroyed, before its event is
  // taken. The event is there at once: a moment that has passed needs no timer.
  void Wake() {
    constexpr std::chrono::system_clock::time_point kPast;
    if (!is_woken_.exchange(true)) alarm_.Set(call_.queue(), kPast, Tag(kWake));
  }

  // Waits for every operation: gRPC writes into this object until then.
  void Close() {
    window_.WakeBy(nullptr);
    while (is_reading_ || is_writing_ || is_woken_) {
      const void* const tag = call_.Next()->tag;
      if (tag == Tag(kRead)) is_reading_ = false;
      if (tag == Tag(kWrite)) is_writing_ = false;
      if (tag == Tag(kWake)) is_woken_ = false;
    }
  }

  // Returns when to call it again, whatever happens meanwhile.
  Deadline SendNext() {
    if (is_writing_ || is_half_closed_ || !is_reading_) return std::nullopt;
    LendingMessage due;
    if (TakeDue(due)) {
      stream_->Write(due.message(), Tag(kWrite));  // serializes it at once
      is_writing_ = true;
    } else if (window_.IsAllAnswered()) {
      // Not before the last answer: one that says "try again" is sent again on this stream.
      stream_->WritesDone(Tag(kWrite));
      is_writing_ = is_half_closed_ = true;
    }
    return is_writing_ ? std::nullopt : window_.NextDue();
  }

  // Lends as many requests as are due and fit. False: none is due.
  bool TakeDue(LendingMessage& due) {
    const auto now = std::chrono::steady_clock::now();
    const size_t items_max = daemon_takes_more_ ? limits::kStreamMessageRequestsMax : 1;
    size_t bytes = 0;
    for (size_t items = 0; items < items_max; ++items) {
      const auto id = window_.TakeDue(now);
      if (!id) return items > 0;
      v1::CompileRequest& request = window_.Request(*id);
      bytes += request.ByteSizeLong();
      if (items > 0 && bytes > limits::kStreamUnsentBytesMax) {
        window_.PutBack(*id);
        return true;
      }
      due.Lend(*id, request);
    }
    return true;
  }

  void OnEvent(const WatchedCall::Event& event) {
    if (event.tag == Tag(kWrite)) {
      is_writing_ = false;
      if (!event.ok) is_half_closed_ = true;  // broken: the read fails next
      return;
    }
    if (event.tag == Tag(kWake)) {
      is_woken_ = false;
      return;
    }
    is_reading_ = event.ok;
    if (!event.ok) return;
    v1::CompileStreamResponse answer = std::move(answer_);
    answer_.Clear();
    stream_->Read(&answer_, Tag(kRead));
    daemon_takes_more_ = answer.takes_more();
    OnAnswer(answer);
    for (v1::CompileStreamResponse& each : *answer.mutable_more()) OnAnswer(each);
  }

  void OnAnswer(v1::CompileStreamResponse& answer) {
    absl::Status status = FromStreamAnswer(answer);
    if (status.ok()) status = complete_(*answer.mutable_response());
    RequestWindow::Answer checked = std::move(*answer.mutable_response());
    window_.OnAnswer(answer.id(), status.ok() ? std::move(checked) : status);
  }

  absl::Status Finish() {
    grpc::Status status;
    stream_->Finish(&status, Tag(kFinish));
    call_.Next();
    if (window_.IsAllAnswered()) return absl::OkStatus();
    if (!status.ok()) return call_.Result(status);
    return Unavailable("the daemon ended the stream before it had answered everything");
  }

  const AnswerCompletion& complete_;
  RequestWindow& window_;
  v1::CompileStreamResponse answer_;
  WatchedCall call_;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<v1::CompileStreamRequest, v1::CompileStreamResponse>>
      stream_;
  grpc::Alarm alarm_;
  std::atomic<bool> is_woken_ = false;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_half_closed_ = false;
  bool daemon_takes_more_ = false;
};

}  // namespace

absl::Status RunCompileStream(KernelStub& stub, const CallLimits& limits,
                              const AnswerCompletion& complete, RequestWindow& window) {
  KeepFreedMemory();
  return CompileStream(stub, limits, complete, window).Run();
}

}  // namespace kiln
