#include "client/rpc/light_stream.h"

#include <endian.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/rpc/status_details.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using Moment = RequestWindow::Moment;

constexpr std::string_view kPreamble = "kiln/1\r\n";
constexpr size_t kUnsentBytes = 64 * limits::kKiB;
constexpr size_t kReadBytes = 256 * limits::kKiB;
constexpr size_t kLengthBytes = sizeof(uint32_t);
constexpr size_t kAnswerHeaderBytes = sizeof(uint64_t) + sizeof(uint8_t);  // behind the length
constexpr size_t kRequestHeaderBytes = sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint8_t);

template <typename Integer>
void Append(Integer little_endian, std::string& out) {
  out.append(reinterpret_cast<const char*>(&little_endian), sizeof little_endian);
}

void AppendFrame(uint64_t id, uint32_t timeout_ms, v1::LightMethod method,
                 const google::protobuf::MessageLite& body, std::string& out) {
  const size_t bytes = body.ByteSizeLong();
  Append(htole32(static_cast<uint32_t>(kRequestHeaderBytes + bytes)), out);
  Append(htole64(id), out);
  Append(htole32(timeout_ms), out);
  Append(static_cast<uint8_t>(method), out);
  const size_t at = out.size();
  out.resize(at + bytes);
  body.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(out.data() + at));
}

struct AnswerFrame {
  uint64_t id;
  int code;
  std::string_view body;
};

uint32_t LengthOf(std::string_view frame) {
  uint32_t length;
  std::memcpy(&length, frame.data(), sizeof length);
  return le32toh(length);
}

// REQUIRES: the frame is whole and has a header.
AnswerFrame ReadAnswer(std::string_view frame) {
  uint64_t id;
  std::memcpy(&id, frame.data() + kLengthBytes, sizeof id);
  const size_t header = kLengthBytes + kAnswerHeaderBytes;
  return {le64toh(id), static_cast<unsigned char>(frame[header - 1]), frame.substr(header)};
}

RequestWindow::Answer ToAnswer(const AnswerFrame& frame) {
  const int bytes = static_cast<int>(frame.body.size());
  if (frame.code != 0) {
    v1::RpcStatus status;
    if (!status.ParseFromArray(frame.body.data(), bytes)) status.Clear();
    return FromGrpc(
        {static_cast<grpc::StatusCode>(frame.code), status.message(), std::string(frame.body)});
  }
  v1::CompileResponse response;
  if (response.ParseFromArray(frame.body.data(), bytes)) return response;
  return Internal("the daemon's answer is not a kiln.v1.CompileResponse");
}

// One thread drives the socket. The window's thread wakes it by an eventfd.
class LightStream {
 public:
  LightStream(UniqueFd socket, const CallLimits& limits, const LifeQuestion& shows_life,
              const AnswerCompletion& complete, RequestWindow& window)
      : socket_(std::move(socket)),
        woken_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        limits_(limits),
        quiet_time_(limits.answer_budget / 3),
        shows_life_(shows_life),
        complete_(complete),
        window_(window),
        unsent_(kPreamble),
        read_(kReadBytes, '\0') {
    window_.WakeBy([this] { Wake(); });
  }
  ~LightStream() { window_.WakeBy(nullptr); }
  LightStream(const LightStream&) = delete;
  LightStream& operator=(const LightStream&) = delete;

  absl::Status Run() {
    if (!woken_) return absl::UnimplementedError("no eventfd");
    NoteLife();
    while (!window_.IsAllAnswered()) {
      if (IsTooLate()) {
        return DeadlineExceeded("the deadline passed before the daemon had answered everything");
      }
      TakeDue();
      KILN_RETURN_IF_ERROR(Write());
      KILN_ASSIGN_OR_RETURN(const bool has_read, Read());
      if (!has_read && !window_.IsAllAnswered()) KILN_RETURN_IF_ERROR(Await());
    }
    return absl::OkStatus();
  }

 private:
  // On the source's thread.
  void Wake() {
    if (!is_woken_.exchange(true)) ::eventfd_write(woken_.get(), 1);
  }

  bool IsTooLate() const {
    return limits_.deadline && std::chrono::steady_clock::now() >= *limits_.deadline;
  }

  void NoteLife() { silent_at_ = std::chrono::steady_clock::now() + quiet_time_; }

  bool MaySend() const {
    return under_way_ < limits::kStreamInFlightMax && unsent_.size() - sent_bytes_ < kUnsentBytes;
  }

  void TakeDue() {
    if (!MaySend()) return;
    const Moment now = std::chrono::steady_clock::now();
    uint32_t timeout_ms = 0;
    if (limits_.deadline) {
      const auto left = std::chrono::ceil<milliseconds>(*limits_.deadline - now).count();
      timeout_ms = static_cast<uint32_t>(std::clamp<int64_t>(left, 1, UINT32_MAX));
    }
    while (MaySend()) {
      const auto id = window_.TakeDue(now);
      if (!id) return;
      AppendFrame(*id, timeout_ms, v1::LIGHT_METHOD_COMPILE, window_.Request(*id), unsent_);
      ++under_way_;
    }
  }

  absl::Status Write() {
    while (sent_bytes_ < unsent_.size()) {
      const ssize_t sent = ::send(socket_.get(), unsent_.data() + sent_bytes_,
                                  unsent_.size() - sent_bytes_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) {
        unsent_.erase(0, sent_bytes_);
        sent_bytes_ = 0;
        return absl::OkStatus();
      }
      // What the daemon said before is still to be read.
      if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) break;
      if (sent < 0) return Broken(std::strerror(errno));
      sent_bytes_ += static_cast<size_t>(sent);
      NoteLife();
    }
    unsent_.clear();
    sent_bytes_ = 0;
    return absl::OkStatus();
  }

  // False: there is nothing to read.
  absl::StatusOr<bool> Read() {
    const ssize_t count =
        ::recv(socket_.get(), read_.data() + read_bytes_, read_.size() - read_bytes_, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (count <= 0) return Broken("the daemon ended the connection");
    read_bytes_ += static_cast<size_t>(count);
    NoteLife();
    KILN_RETURN_IF_ERROR(TakeAnswers());
    return true;
  }

  absl::Status TakeAnswers() {
    std::string_view left = std::string_view(read_).substr(0, read_bytes_);
    size_t needed_bytes = 0;
    while (left.size() >= kLengthBytes) {
      const size_t length = LengthOf(left);
      if (length < kAnswerHeaderBytes || length > limits::kClientReceiveBytesMax) {
        return Broken("the daemon does not speak the light protocol");
      }
      needed_bytes = kLengthBytes + length;
      if (left.size() < needed_bytes) break;
      OnAnswer(ReadAnswer(left.substr(0, needed_bytes)));
      left.remove_prefix(needed_bytes);
    }
    std::memmove(read_.data(), left.data(), left.size());
    read_bytes_ = left.size();
    if (read_.size() < needed_bytes) read_.resize(needed_bytes);
    return absl::OkStatus();
  }

  void OnAnswer(const AnswerFrame& frame) {
    is_confirmed_ = true;
    if (under_way_ > 0) --under_way_;
    RequestWindow::Answer answer = ToAnswer(frame);
    if (answer.ok()) {
      if (absl::Status status = complete_(*answer); !status.ok()) answer = std::move(status);
    }
    window_.OnAnswer(frame.id, std::move(answer));
  }

  // Waits for the daemon, the source or the deadline. UNAVAILABLE: the daemon is silent.
  absl::Status Await() {
    const Moment until = std::min(
        {silent_at_, limits_.deadline.value_or(Moment::max()), NextSend().value_or(Moment::max())});
    const auto wait = until - std::chrono::steady_clock::now();
    const short events = unsent_.empty() ? POLLIN : POLLIN | POLLOUT;
    std::array<pollfd, 2> watched = {pollfd{socket_.get(), events, 0},
                                     pollfd{woken_.get(), POLLIN, 0}};
    const auto wait_ms = std::max<int64_t>(std::chrono::ceil<milliseconds>(wait).count(), 0);
    ::poll(watched.data(), watched.size(), static_cast<int>(std::min<int64_t>(wait_ms, INT32_MAX)));
    if (watched[1].revents != 0) {
      // In this order: a wake in between is written, or its item is taken now.
      eventfd_t count;
      ::eventfd_read(woken_.get(), &count);
      is_woken_ = false;
    }
    if (watched[0].revents != 0 || IsTooLate()) return absl::OkStatus();
    if (std::chrono::steady_clock::now() < silent_at_) return absl::OkStatus();
    if (!shows_life_(limits_.answer_budget - quiet_time_)) return WedgedStatus();
    NoteLife();
    return absl::OkStatus();
  }

  std::optional<Moment> NextSend() const { return MaySend() ? window_.NextDue() : std::nullopt; }

  absl::Status Broken(const std::string& why) const {
    if (!is_confirmed_) return absl::UnimplementedError(why);
    return Unavailable("{} before it had answered everything", why);
  }

  const UniqueFd socket_;
  const UniqueFd woken_;
  const CallLimits limits_;
  const milliseconds quiet_time_;
  const LifeQuestion& shows_life_;
  const AnswerCompletion& complete_;
  RequestWindow& window_;
  std::string unsent_;
  size_t sent_bytes_ = 0;  // of unsent_
  std::string read_;
  size_t read_bytes_ = 0;  // that read_ begins with
  size_t under_way_ = 0;
  Moment silent_at_;
  bool is_confirmed_ = false;  // there was an answer
  std::atomic<bool> is_woken_ = false;
};

}  // namespace

absl::Status RunLightStream(UniqueFd socket, const CallLimits& limits,
                            const LifeQuestion& shows_life, const AnswerCompletion& complete,
                            RequestWindow& window) {
  return LightStream(std::move(socket), limits, shows_life, complete, window).Run();
}

bool IsAnswered(UniqueFd socket, v1::LightMethod method, const google::protobuf::MessageLite& body,
                milliseconds budget) {
  std::string unsent(kPreamble);
  AppendFrame(/*id=*/1, /*timeout_ms=*/0, method, body, unsent);
  std::string_view left = unsent;
  const Moment until = std::chrono::steady_clock::now() + budget;
  while (true) {
    const auto wait = until - std::chrono::steady_clock::now();
    if (wait <= wait.zero()) return false;
    const short events = left.empty() ? POLLIN : POLLIN | POLLOUT;
    pollfd watched{socket.get(), events, 0};
    const auto wait_ms = std::chrono::ceil<milliseconds>(wait).count();
    if (::poll(&watched, 1, static_cast<int>(std::min<int64_t>(wait_ms, INT32_MAX))) <= 0) continue;
    if ((watched.revents & ~POLLOUT) != 0) {
      char first;
      return ::recv(socket.get(), &first, 1, MSG_DONTWAIT) > 0;
    }
    const ssize_t sent =
        ::send(socket.get(), left.data(), left.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    left.remove_prefix(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
  }
}

}  // namespace kiln
